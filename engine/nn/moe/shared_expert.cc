#include "engine/nn/moe/shared_expert.h"

#include <fmt/format.h>

#include "engine/nn/mlp.h"

namespace hawser::nn {
namespace {

std::string at(int64_t layer, const char* name) { return fmt::format("blocks.{}.moe.{}", layer, name); }

}  // namespace

SharedExpert::SharedExpert(const ParameterTable& table, const ModelConfig& model, int64_t layer)
    : gated_(is_gated(model.mlp)),
      kind_(activation_of(model.mlp)),
      up_(table, up_names(model.mlp, at(layer, "shared"))),
      down_(table, {at(layer, "shared.down")}) {
  if (!model.moe.shared_gate) return;
  kernels::RouterShape one;
  one.experts = one.top_k = 1;
  one.score = kernels::RouterScore::kSigmoid;
  gate_.emplace(table, at(layer, "shared_gate"), one);
}

SharedExpertSaved SharedExpert::take_saved(const Context& ctx, Region& region) const {
  SharedExpertSaved saved;
  saved.h = region.take(ctx.rows() * up_.out() * dtype_bytes(ctx.type));
  if (gate_) saved.gate = gate_->take_saved(ctx, region);
  return saved;
}

kernels::ExpertActivation SharedExpert::activation(const Context& ctx, const SharedExpertSaved& saved) const {
  kernels::ExpertActivation a;
  a.h = saved.h;
  a.weights = saved.gate.weights;
  a.type = ctx.type;
  a.rows = ctx.rows(), a.f = down_.in();
  a.kind = kind_;
  a.gated = gated_;
  return a;
}

void SharedExpert::forward(const Context& ctx, const SharedExpertSaved& saved, float* y,
                           const void* x) const {
  RegionScope scope(*ctx.workspace);
  if (gate_) gate_->forward(ctx, saved.gate, x);
  up_.forward(ctx, saved.h, ctx.type, up_.out(), x, ctx.rows());
  if (y == nullptr) return;
  kernels::ExpertActivationForward f{activation(ctx, saved)};
  f.y = ctx.take(ctx.rows() * down_.in());
  ctx.kernels->expert_activation_forward(f, *ctx.stream);
  down_.forward(ctx, y, DType::kF32, down_.out(), f.y, ctx.rows());
}

void SharedExpert::take_weight_pass_inputs(const Context& ctx, Region& region, SharedExpertMade* made) const {
  made->dh = region.take(ctx.rows() * up_.out() * dtype_bytes(ctx.type));
  if (gate_) made->dlogits = gate_->take_dlogits(ctx, region);
}

void SharedExpert::take_activation(const Context& ctx, Region& region, SharedExpertMade* made) const {
  made->a = region.take(ctx.rows() * down_.in() * dtype_bytes(ctx.type));
}

void SharedExpert::backward_input(const Context& ctx, const SharedExpertSaved& saved,
                                  const SharedExpertMade& made, float* dx, const void* dy,
                                  DType dy_type) const {
  RegionScope scope(*ctx.workspace);
  down_.backward_input(ctx, made.a, ctx.type, dy, dy_type, ctx.rows());
  kernels::ExpertActivationBackward b{activation(ctx, saved)};
  b.dh = made.dh;
  b.y = made.a;
  if (gate_) b.dweights = ctx.workspace->take_as<float>(ctx.rows());
  b.dy = made.a;
  ctx.kernels->expert_activation_backward(b, *ctx.stream);
  up_.backward_input(ctx, dx, DType::kF32, made.dh, ctx.type, ctx.rows());
  if (gate_) gate_->backward_input(ctx, saved.gate, made.dlogits, dx, b.dweights, nullptr, {});
}

void SharedExpert::backward_down_weight(const Context& ctx, const SharedExpertMade& made, const void* dy,
                                        DType dy_type) const {
  down_.backward_weight(ctx, dy, dy_type, made.a, ctx.rows());
}

void SharedExpert::backward_up_weight(const Context& ctx, const SharedExpertMade& made, const void* x) const {
  up_.backward_weight(ctx, made.dh, ctx.type, x, ctx.rows());
  if (gate_) gate_->backward_weight(ctx, made.dlogits, x);
}

}  // namespace hawser::nn
