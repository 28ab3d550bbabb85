#include "engine/nn/moe/mixture.h"

#include <fmt/format.h>

namespace hawser::nn {
namespace {

kernels::RouterShape shape_of(const MoeConfig& moe) {
  kernels::RouterShape shape;
  shape.experts = moe.experts, shape.top_k = moe.top_k;
  shape.groups = moe.groups, shape.top_groups = moe.groups > 1 ? moe.top_groups : 1;
  shape.score =
      moe.score == RouterScore::kSigmoid ? kernels::RouterScore::kSigmoid : kernels::RouterScore::kSoftmax;
  shape.normalize = moe.normalize;
  shape.scale = static_cast<float>(moe.scale);
  return shape;
}

}  // namespace

Mixture::Mixture(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training,
                 int64_t layer)
    : router_(table, fmt::format("blocks.{}.moe.router", layer), shape_of(model.moe)),
      dispatcher_(model, training),
      experts_(table, model, layer),
      output_bias_(table, model, layer),
      balance_(table, model, training, layer) {
  if (model.moe.shared_width > 0) shared_.emplace(table, model, layer);
}

MixtureSaved Mixture::take_saved(const Context& ctx, Region& region, Region& kept) const {
  MixtureSaved s;
  s.router = router_.take_saved(ctx, region);
  s.statistics = balance_.take_saved(ctx, region);
  s.routes = dispatcher_.take_saved(ctx, region, kept);
  s.experts = ctx.experts->take_saved(ctx, dispatcher_, experts_, region, kept);
  if (shared_) s.shared = shared_->take_saved(ctx, region);
  return s;
}

void Mixture::forward(const Context& ctx, const MixtureSaved& s, float* y, const void* x) const {
  router_.forward(ctx, s.router, x);
  dispatcher_.route(ctx, s.routes, s.router.choice);
  if (shared_) shared_->forward(ctx, s.shared, y, x);
  const int64_t rounds = ctx.experts->forward(ctx, routed(s), s.experts, y, x, shared_.has_value());
  output_bias_.forward(ctx, s.router, s.routes, y);
  balance_.count(ctx, s.statistics, s.router, router_.shape(ctx), s.routes, rounds);
}

void Mixture::take_weight_pass_inputs(const Context& ctx, Region& region, MixtureMade* made) const {
  made->dlogits = router_.take_dlogits(ctx, region);
  ctx.experts->take_weight_pass_inputs(ctx, dispatcher_, experts_, region, &made->experts);
  if (shared_) shared_->take_weight_pass_inputs(ctx, region, &made->shared);
}

void Mixture::take_activation(const Context& ctx, Region& region, MixtureMade* made) const {
  ctx.experts->take_activation(ctx, dispatcher_, experts_, region, &made->experts);
  if (shared_) shared_->take_activation(ctx, region, &made->shared);
}

void Mixture::backward_input(const Context& ctx, const MixtureSaved& s, const MixtureMade& made, float* dx,
                             const void* dy, DType dy_type) const {
  const RegionScope scope(*ctx.workspace);
  if (shared_) shared_->backward_input(ctx, s.shared, made.shared, dx, dy, dy_type);
  auto* const dweights = ctx.workspace->take_as<float>(dispatcher_.places(ctx));
  ctx.experts->backward_input(ctx, routed(s), s.experts, made.experts, dx, dweights, dy, dy_type,
                              shared_.has_value());
  output_bias_.backward(ctx, s.router, s.routes, dweights, dy, dy_type);
  router_.backward_input(ctx, s.router, made.dlogits, dx, dweights, s.routes.place,
                         balance_.losses(ctx, s.statistics));
}

void Mixture::backward_down_weight(const Context& ctx, const MixtureSaved& s, const MixtureMade& made,
                                   const void* dy, DType dy_type) const {
  ctx.experts->backward_down_weight(ctx, routed(s), s.experts, made.experts, dy, dy_type);
  if (shared_) shared_->backward_down_weight(ctx, made.shared, dy, dy_type);
}

void Mixture::backward_up_weight(const Context& ctx, const MixtureSaved& s, const MixtureMade& made,
                                 const void* x) const {
  ctx.experts->backward_up_weight(ctx, routed(s), s.experts, made.experts, x);
  router_.backward_weight(ctx, made.dlogits, x);
  if (shared_) shared_->backward_up_weight(ctx, made.shared, x);
}

}  // namespace hawser::nn
