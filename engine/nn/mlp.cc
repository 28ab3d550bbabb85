#include "engine/nn/mlp.h"

#include <fmt/format.h>

namespace hawser::nn {

std::vector<std::string> up_names(MlpKind kind, const std::string& prefix) {
  if (is_gated(kind)) return {prefix + ".gate", prefix + ".up"};
  return {prefix + ".up"};
}

kernels::Activation activation_of(MlpKind kind) {
  switch (kind) {
    case MlpKind::kGelu:
    case MlpKind::kGeGluExact:
      return kernels::Activation::kGelu;
    case MlpKind::kGeluTanh:
      return kernels::Activation::kGeluTanh;
    case MlpKind::kSwiGlu:
      return kernels::Activation::kSilu;
    case MlpKind::kGeGlu:
      return kernels::Activation::kGeluTanh;
  }
  return kernels::Activation::kGelu;
}

Mlp::Mlp(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : gated_(is_gated(model.mlp)),
      kind_(activation_of(model.mlp)),
      up_(table, up_names(model.mlp, fmt::format("blocks.{}.mlp", layer))),
      down_(table, {fmt::format("blocks.{}.mlp.down", layer)}) {}

MlpSaved Mlp::take_saved(const Context& ctx, Region& region, Region& kept) const {
  MlpSaved saved;
  saved.h = hidden(ctx).take(ctx, region);
  if (in_products(ctx)) saved.a = activation(ctx).take(ctx, kept);
  return saved;
}

SavedRows Mlp::hidden(const Context& ctx) const { return {ctx.compress.mlp_hidden, ctx.rows(), up_.out()}; }
SavedRows Mlp::activation(const Context& ctx) const {
  return {ctx.compress.mlp_hidden, ctx.rows(), down_.in()};
}

/// True if the backend fuses the activation into products, which exists only for the GELU of GPT-2. Otherwise
/// the backward kernel of the activation recomputes its output. Adapters prevent the fusion, because they add
/// to the input of the activation.
bool Mlp::in_products(const Context& ctx) const {
  return ctx.kernels->suited->epilogues && !gated_ && kind_ == kernels::Activation::kGeluTanh &&
         !up_.has_adapter() && !down_.has_adapter();
}

void Mlp::forward(const Context& ctx, const MlpSaved& saved, float* y, const void* x) const {
  RegionScope scope(*ctx.workspace);
  const MlpSaved full{hidden(ctx).full(ctx, saved.h), activation(ctx).full(ctx, saved.a)};
  compute(ctx, full, y, x);
  hidden(ctx).encode(ctx, saved.h, full.h);
  activation(ctx).encode(ctx, saved.a, full.a);
}

void Mlp::compute(const Context& ctx, const MlpSaved& saved, float* y, const void* x) const {
  RegionScope scope(*ctx.workspace);
  if (in_products(ctx)) {
    up_.forward_gelu(ctx, saved.a, saved.h, x, ctx.rows());
    if (y != nullptr) down_.forward(ctx, y, DType::kF32, down_.out(), saved.a, ctx.rows());
    return;
  }
  up_.forward(ctx, saved.h, ctx.type, up_.out(), x, ctx.rows());
  if (y == nullptr) return;
  void* const a = ctx.take(ctx.rows() * down_.in());
  activate(ctx, saved, a);
  down_.forward(ctx, y, DType::kF32, down_.out(), a, ctx.rows());
}

void Mlp::activate(const Context& ctx, const MlpSaved& saved, void* a) const {
  kernels::ActivationForward f;
  f.y = a;
  f.h = saved.h;
  f.type = ctx.type;
  f.rows = ctx.rows(), f.f = down_.in();
  f.kind = kind_;
  f.gated = gated_;
  ctx.kernels->activation_forward(f, *ctx.stream);
}

/// Computes dh from da, and overwrites da with a.
void Mlp::activation_backward(const Context& ctx, const MlpSaved& saved, void* dh, void* da) const {
  kernels::ActivationBackward b;
  b.dh = dh;
  b.y = da;
  b.dy = da;
  b.h = saved.h;
  b.type = ctx.type;
  b.rows = ctx.rows(), b.f = down_.in();
  b.kind = kind_;
  b.gated = gated_;
  ctx.kernels->activation_backward(b, *ctx.stream);
}

void* Mlp::take_dh(const Context& ctx, Region& region) const {
  return region.take(ctx.rows() * up_.out() * dtype_bytes(ctx.type));
}

void* Mlp::take_activation(const Context& ctx, const MlpSaved& saved, Region& region) const {
  return saved.a ? saved.a : region.take(ctx.rows() * down_.in() * dtype_bytes(ctx.type));
}

void Mlp::backward_input(const Context& ctx, const MlpSaved& saved, void* dh, void* a, float* dx,
                         const void* dy, DType dy_type) const {
  {
    RegionScope scope(*ctx.workspace);
    const MlpSaved full{hidden(ctx).decode(ctx, saved.h), nullptr};
    if (in_products(ctx)) {
      down_.backward_input_gelu(ctx, dh, full.h, dy, dy_type, ctx.rows());
    } else {
      down_.backward_input(ctx, a, ctx.type, dy, dy_type, ctx.rows());
      activation_backward(ctx, full, dh, a);
    }
  }
  up_.backward_input(ctx, dx, DType::kF32, dh, ctx.type, ctx.rows());
}

void Mlp::backward_down_weight(const Context& ctx, void* a, const void* dy, DType dy_type) const {
  RegionScope scope(*ctx.workspace);
  if (in_products(ctx)) a = activation(ctx).decode(ctx, a);
  down_.backward_weight(ctx, dy, dy_type, a, ctx.rows());
}

void Mlp::backward_up_weight(const Context& ctx, const void* dh, const void* x) const {
  up_.backward_weight(ctx, dh, ctx.type, x, ctx.rows());
}

}  // namespace hawser::nn
