#include "engine/nn/moe/experts.h"

#include <fmt/format.h>

#include "engine/nn/mlp.h"

namespace hawser::nn {

Experts::Experts(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : gated_(is_gated(model.mlp)),
      kind_(activation_of(model.mlp)),
      experts_(model.moe.experts),
      width_(model.width),
      features_(model.moe.width),
      out_(gated_ ? 2 * features_ : features_) {
  const auto place = [&](const char* part) {
    return table.place(fmt::format("blocks.{}.moe.experts.{}.weight", layer, part));
  };
  gate_ = place("gate"), up_ = place("up"), down_ = place("down");
}

ExpertsSaved Experts::take_saved(const Context& ctx, Region& region, int64_t places) const {
  return {take_dh(ctx, region, places)};
}

void* Experts::take_dh(const Context& ctx, Region& region, int64_t places) const {
  return region.take(places * out_ * dtype_bytes(ctx.type));
}

void* Experts::take_activation(const Context& ctx, Region& region, int64_t places) const {
  return region.take(places * features_ * dtype_bytes(ctx.type));
}

/// What all products have in common.
kernels::GroupedMatmul Experts::product(const Context& ctx, const Routes& routes, int64_t places) const {
  kernels::GroupedMatmul m;
  m.offsets = routes.offsets;
  m.a_type = m.b_type = ctx.type;
  m.groups = experts_, m.rows = places;
  m.round_to_bf16 = ctx.type == DType::kBf16;
  return m;
}

kernels::ExpertActivation Experts::activation(const Context& ctx, const ExpertsSaved& saved,
                                              const Routes& routes, const float* weights,
                                              int64_t places) const {
  kernels::ExpertActivation a;
  a.h = saved.h;
  a.weights = weights;
  a.order = routes.order;
  a.end = routes.offsets + experts_;
  a.type = ctx.type;
  a.rows = places, a.f = features_;
  a.kind = kind_;
  a.gated = gated_;
  return a;
}

void Experts::run(const Context& ctx, kernels::GroupedMatmul m) const {
  RegionScope scope(*ctx.workspace);
  m.workspace = ctx.workspace->take(ctx.kernels->grouped_matmul_workspace_bytes(m, ctx.stream->num_workers));
  ctx.kernels->grouped_matmul(m, *ctx.stream);
}

void Experts::forward(const Context& ctx, const ExpertsSaved& saved, const Routes& routes,
                      const float* weights, float* y, const void* x, int64_t places) const {
  RegionScope scope(*ctx.workspace);
  kernels::GroupedMatmul m = product(ctx, routes, places);
  m.a = x, m.lda = width_;
  m.n = features_, m.k = width_;
  m.b_transposed = true;
  m.c_type = ctx.type, m.ldc = out_;
  if (gated_) {
    m.c = saved.h, m.b = ctx.weight(gate_);
    run(ctx, m);
  }
  m.c = advance(saved.h, out_ - features_, ctx.type), m.b = ctx.weight(up_);
  run(ctx, m);
  if (y == nullptr) return;

  kernels::ExpertActivationForward f{activation(ctx, saved, routes, weights, places)};
  f.y = take_activation(ctx, *ctx.workspace, places);
  ctx.kernels->expert_activation_forward(f, *ctx.stream);

  m.a = f.y, m.lda = features_;
  m.b = ctx.weight(down_);
  m.n = width_, m.k = features_;
  m.c = y, m.c_type = DType::kF32, m.ldc = width_;
  run(ctx, m);
}

void Experts::backward_input(const Context& ctx, const ExpertsSaved& saved, const Routes& routes,
                             const float* weights, void* dh, void* a, float* dweights, float* dx,
                             const void* dy, DType dy_type, int64_t places) const {
  kernels::GroupedMatmul m = product(ctx, routes, places);
  m.a = dy, m.a_type = dy_type, m.lda = width_;
  m.b = ctx.weight(down_);
  m.n = features_, m.k = width_;
  m.c = a, m.c_type = ctx.type, m.ldc = features_;
  run(ctx, m);

  kernels::ExpertActivationBackward b{activation(ctx, saved, routes, weights, places)};
  b.dh = dh;
  b.y = a;
  b.dweights = dweights;
  b.dy = a;
  ctx.kernels->expert_activation_backward(b, *ctx.stream);

  m.a_type = ctx.type, m.lda = out_;
  m.n = width_, m.k = features_;
  m.c = dx, m.c_type = DType::kF32, m.ldc = width_;
  if (gated_) {
    m.a = dh, m.b = ctx.weight(gate_);
    run(ctx, m);
    m.accumulate = true;
  }
  m.a = advance(dh, out_ - features_, ctx.type), m.b = ctx.weight(up_);
  run(ctx, m);
}

void Experts::backward_down_weight(const Context& ctx, const Routes& routes, const void* a, const void* dy,
                                   DType dy_type, int64_t places) const {
  kernels::GroupedMatmul m = product(ctx, routes, places);
  m.c = ctx.gradient(down_);
  if (m.c == nullptr) return;
  m.a = dy, m.a_type = dy_type, m.lda = width_;
  m.b = a, m.ldb = features_;
  m.k = width_, m.n = features_;
  m.sums_rows = true;
  m.accumulate = ctx.accumulate;
  run(ctx, m);
}

void Experts::backward_up_weight(const Context& ctx, const Routes& routes, const void* dh, const void* x,
                                 int64_t places) const {
  kernels::GroupedMatmul m = product(ctx, routes, places);
  m.b = x, m.ldb = width_;
  m.lda = out_;
  m.k = features_, m.n = width_;
  m.sums_rows = true;
  m.accumulate = ctx.accumulate;
  const auto gradient = [&](Place place, int64_t first_column) {
    m.c = ctx.gradient(place);
    m.a = advance(dh, first_column, ctx.type);
    if (m.c != nullptr) run(ctx, m);
  };
  if (gated_) gradient(gate_, 0);
  gradient(up_, out_ - features_);
}

}  // namespace hawser::nn
