#include "engine/nn/moe/experts.h"

#include <fmt/format.h>

#include "engine/nn/mlp.h"

namespace hawser::nn {

Experts::Experts(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : gated_(is_gated(model.mlp)),
      kind_(activation_of(model.mlp)),
      experts_(table.at(fmt::format("blocks.{}.moe.experts.up.weight", layer)).local_shape[0]),
      width_(model.width),
      features_(model.moe.width),
      out_(gated_ ? 2 * features_ : features_),
      all_experts_(model.moe.experts),
      gate_bias_(table.place(fmt::format("blocks.{}.moe.experts.gate.bias", layer))),
      up_bias_(table.place(fmt::format("blocks.{}.moe.experts.up.bias", layer))) {
  const auto stack = [&](const char* part) {
    const std::string name = fmt::format("blocks.{}.moe.experts.{}.weight", layer, part);
    return Stack{table.place(name), &table.at(name) - table.all().data()};
  };
  if (gated_) gate_ = stack("gate");
  up_ = stack("up"), down_ = stack("down");
}

void* Experts::take_dh(const Context& ctx, Region& region, int64_t places) const {
  return region.take(places * out_ * dtype_bytes(ctx.type));
}

void* Experts::take_activation(const Context& ctx, Region& region, int64_t places) const {
  return region.take(places * features_ * dtype_bytes(ctx.type));
}

/// Returns a grouped product with the settings that all products share.
kernels::GroupedMatmul Experts::product(const Context& ctx, const ExpertRows& rows) const {
  kernels::GroupedMatmul m;
  m.offsets = rows.offsets;
  m.a_type = m.b_type = ctx.type;
  m.groups = experts_, m.rows = rows.count;
  m.round_to = ctx.type;
  return m;
}

kernels::ExpertActivation Experts::activation(const Context& ctx, const void* h,
                                              const ExpertRows& rows) const {
  kernels::ExpertActivation a;
  a.h = h;
  a.weights = rows.weights;
  a.order = rows.order;
  a.end = rows.offsets + experts_;
  a.type = ctx.type;
  a.rows = rows.count, a.f = features_;
  a.kind = kind_;
  a.gated = gated_;
  return a;
}

void Experts::run(const Context& ctx, kernels::GroupedMatmul m, const ExpertRows& rows) const {
  RegionScope scope(*ctx.workspace);
  m.rows = rows.room;
  m.workspace = ctx.workspace->take(ctx.kernels->grouped_matmul_workspace_bytes(m, ctx.stream->num_workers));
  m.rows = rows.count;
  ctx.kernels->grouped_matmul(m, *ctx.stream);
}

/// Multiplies by the weights of a stack.
void Experts::multiply(const Context& ctx, kernels::GroupedMatmul m, const ExpertRows& rows,
                       const Stack& stack, bool notes) const {
  const RegionScope scope(*ctx.workspace);
  m.b = factor(ctx, stack, notes);
  run(ctx, m, rows);
}

/// Returns the rows of one projection before the activation, in h or its gradient.
kernels::GroupedRows Experts::grouped(const Context& ctx, const ExpertRows& rows) const {
  return {rows.offsets, experts_, rows.count, features_, out_, ctx.type};
}

void Experts::add_bias(const Context& ctx, const ExpertRows& rows, void* h, Place place) const {
  if (!place) return;
  const RegionScope scope(*ctx.workspace);
  const float* const bias = ctx.lookup_f32(place, all_experts_ * features_);
  ctx.kernels->expert_bias({grouped(ctx, rows), h, bias + rows.first_expert * features_}, *ctx.stream);
}

void Experts::sum_bias(const Context& ctx, const ExpertRows& rows, const void* dh, Place place,
                       bool adds) const {
  float* const gradient = ctx.gradient(place);
  if (gradient == nullptr) return;
  ctx.kernels->expert_bias_sum(
      {grouped(ctx, rows), gradient, dh, rows.first_expert, all_experts_, ctx.accumulate || adds},
      *ctx.stream);
}

/// Computes a gradient of weights in place, or computes it separately and adds it.
void Experts::sum(const Context& ctx, kernels::GroupedMatmul m, const ExpertRows& rows, Place place,
                  bool adds) const {
  float* const gradient = ctx.gradient(place);
  if (gradient == nullptr) return;
  RegionScope scope(*ctx.workspace);
  const int64_t elements = m.groups * m.k * m.n;
  m.sums_rows = true;
  m.c = adds ? ctx.workspace->take_as<float>(elements) : gradient;
  m.accumulate = ctx.accumulate && !adds;
  run(ctx, m, rows);
  if (adds) ctx.kernels->add({gradient, gradient, static_cast<const float*>(m.c), elements}, *ctx.stream);
}

void Experts::forward(const Context& ctx, void* h, const ExpertRows& rows, float* y, const void* x) const {
  RegionScope scope(*ctx.workspace);
  kernels::GroupedMatmul m = product(ctx, rows);
  m.b_transposed = true;
  {
    const RegionScope of_input(*ctx.workspace);
    m.a = input(ctx, rows, x, width_, first(), Fp8Sum::kColumns), m.lda = width_;
    m.n = features_, m.k = width_;
    m.c_type = ctx.type, m.ldc = out_;
    if (gated_) {
      m.c = h;
      multiply(ctx, m, rows, gate_, true);
      add_bias(ctx, rows, h, gate_bias_);
    }
    m.c = advance(h, out_ - features_, ctx.type);
    multiply(ctx, m, rows, up_, true);
    add_bias(ctx, rows, m.c, up_bias_);
  }
  if (y == nullptr) return;

  kernels::ExpertActivationForward f{activation(ctx, h, rows)};
  f.y = take_activation(ctx, *ctx.workspace, rows.room);
  ctx.kernels->expert_activation_forward(f, *ctx.stream);

  m.a = input(ctx, rows, f.y, features_, down_, Fp8Sum::kColumns), m.lda = features_;
  m.n = width_, m.k = features_;
  m.c = y, m.c_type = DType::kF32, m.ldc = width_;
  multiply(ctx, m, rows, down_, true);
}

void Experts::backward_input(const Context& ctx, const void* h, const ExpertRows& rows, void* dh, void* a,
                             float* dweights, float* dx, const void* dy, DType dy_type) const {
  kernels::GroupedMatmul m = product(ctx, rows);
  {
    const RegionScope scope(*ctx.workspace);
    m.a = down_gradient(ctx, rows, dy, &dy_type, Fp8Sum::kColumns);
    m.a_type = dy_type, m.lda = width_;
    m.n = features_, m.k = width_;
    m.c = a, m.c_type = ctx.type, m.ldc = features_;
    multiply(ctx, m, rows, down_, false);
  }

  kernels::ExpertActivationBackward b{activation(ctx, h, rows)};
  b.dh = dh;
  b.y = a;
  b.dweights = dweights;
  b.dy = a;
  ctx.kernels->expert_activation_backward(b, *ctx.stream);

  const RegionScope scope(*ctx.workspace);
  const void* const gradient = up_gradient(ctx, rows, dh, Fp8Sum::kColumns);
  m.a_type = ctx.type, m.lda = out_;
  m.n = width_, m.k = features_;
  m.c = dx, m.c_type = DType::kF32, m.ldc = width_;
  if (gated_) {
    m.a = gradient;
    multiply(ctx, m, rows, gate_, false);
    m.accumulate = true;
  }
  m.a = advance(gradient, out_ - features_, ctx.type);
  multiply(ctx, m, rows, up_, false);
}

void Experts::backward_down_weight(const Context& ctx, const ExpertRows& rows, const void* a, const void* dy,
                                   DType dy_type, bool adds) const {
  if (ctx.gradient(down_.place) == nullptr) return;
  const RegionScope scope(*ctx.workspace);
  kernels::GroupedMatmul m = product(ctx, rows);
  m.a = down_gradient(ctx, rows, dy, &dy_type, Fp8Sum::kRows), m.a_type = dy_type, m.lda = width_;
  m.b = input(ctx, rows, a, features_, down_, Fp8Sum::kRows), m.ldb = features_;
  m.k = width_, m.n = features_;
  sum(ctx, m, rows, down_.place, adds);
}

void Experts::backward_up_weight(const Context& ctx, const ExpertRows& rows, const void* dh, const void* x,
                                 bool adds) const {
  sum_bias(ctx, rows, dh, gate_bias_, adds);
  sum_bias(ctx, rows, advance(dh, out_ - features_, ctx.type), up_bias_, adds);
  if (ctx.gradient(up_.place) == nullptr && ctx.gradient(gate_.place) == nullptr) return;
  const RegionScope scope(*ctx.workspace);
  kernels::GroupedMatmul m = product(ctx, rows);
  m.b = input(ctx, rows, x, width_, first(), Fp8Sum::kRows), m.ldb = width_;
  m.lda = out_;
  m.k = features_, m.n = width_;
  m.a = up_gradient(ctx, rows, dh, Fp8Sum::kRows);
  const void* const of_up = advance(m.a, out_ - features_, ctx.type);
  if (gated_) sum(ctx, m, rows, gate_.place, adds);
  m.a = of_up;
  sum(ctx, m, rows, up_.place, adds);
}

}  // namespace hawser::nn
