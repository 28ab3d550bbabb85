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
    : width_(model.width),
      router_(table, fmt::format("blocks.{}.moe.router", layer), shape_of(model.moe)),
      dispatcher_(model, training),
      experts_(table, model, layer),
      balance_(table, model, training, layer) {
  if (model.moe.shared_width > 0) shared_.emplace(table, model, layer);
}

MixtureSaved Mixture::take_saved(const Context& ctx, Region& region, Region& kept) const {
  MixtureSaved s;
  s.router = router_.take_saved(ctx, region);
  s.statistics = balance_.take_saved(ctx, region);
  s.routes = dispatcher_.take_saved(ctx, region, kept);
  s.experts = experts_.take_saved(ctx, region, dispatcher_.places(ctx));
  if (shared_) s.shared = shared_->take_saved(ctx, region);
  return s;
}

void Mixture::forward(const Context& ctx, const MixtureSaved& s, float* y, const void* x) const {
  router_.forward(ctx, s.router, x);
  dispatcher_.route(ctx, s.routes, s.router.choice);
  balance_.count(ctx, s.statistics, s.router, router_.shape(ctx), s.routes);
  if (shared_) shared_->forward(ctx, s.shared, y, x);
  const RegionScope scope(*ctx.workspace);
  const int64_t places = dispatcher_.places(ctx);
  float* const by_place = y != nullptr ? ctx.workspace->take_as<float>(places * width_) : nullptr;
  {
    const RegionScope of_input(*ctx.workspace);
    const void* const rows = dispatcher_.dispatch(ctx, s.routes, x, ctx.type);
    experts_.forward(ctx, s.experts, s.routes, s.router.weights, by_place, rows, places);
  }
  if (y != nullptr) dispatcher_.combine(ctx, s.routes, y, by_place, shared_.has_value());
}

void Mixture::take_made(const Context& ctx, Region& region, MixtureMade* made) const {
  made->dlogits = router_.take_dlogits(ctx, region);
  made->dh = experts_.take_dh(ctx, region, dispatcher_.places(ctx));
  if (shared_) shared_->take_made(ctx, region, &made->shared);
}

void Mixture::take_activation(const Context& ctx, Region& region, MixtureMade* made) const {
  made->a = experts_.take_activation(ctx, region, dispatcher_.places(ctx));
  if (shared_) shared_->take_activation(ctx, region, &made->shared);
}

void Mixture::backward_input(const Context& ctx, const MixtureSaved& s, const MixtureMade& made, float* dx,
                             const void* dy, DType dy_type) const {
  const RegionScope scope(*ctx.workspace);
  const int64_t places = dispatcher_.places(ctx);
  if (shared_) shared_->backward_input(ctx, s.shared, made.shared, dx, dy, dy_type);
  auto* const dweights = ctx.workspace->take_as<float>(places);
  auto* const by_place = ctx.workspace->take_as<float>(places * width_);
  {
    const RegionScope of_gradient(*ctx.workspace);
    const void* const rows = dispatcher_.dispatch(ctx, s.routes, dy, dy_type);
    experts_.backward_input(ctx, s.experts, s.routes, s.router.weights, made.dh, made.a, dweights, by_place,
                            rows, dy_type, places);
  }
  dispatcher_.combine(ctx, s.routes, dx, by_place, shared_.has_value());
  router_.backward_input(ctx, s.router, made.dlogits, dx, dweights, s.routes.place,
                         balance_.losses(ctx, s.statistics));
}

void Mixture::backward_down_weight(const Context& ctx, const MixtureSaved& s, const MixtureMade& made,
                                   const void* dy, DType dy_type) const {
  const RegionScope scope(*ctx.workspace);
  const void* const rows = dispatcher_.dispatch(ctx, s.routes, dy, dy_type);
  experts_.backward_down_weight(ctx, s.routes, made.a, rows, dy_type, dispatcher_.places(ctx));
  if (shared_) shared_->backward_down_weight(ctx, made.shared, dy, dy_type);
}

void Mixture::backward_up_weight(const Context& ctx, const MixtureSaved& s, const MixtureMade& made,
                                 const void* x) const {
  const RegionScope scope(*ctx.workspace);
  const void* const rows = dispatcher_.dispatch(ctx, s.routes, x, ctx.type);
  experts_.backward_up_weight(ctx, s.routes, made.dh, rows, dispatcher_.places(ctx));
  router_.backward_weight(ctx, made.dlogits, x);
  if (shared_) shared_->backward_up_weight(ctx, made.shared, x);
}

}  // namespace hawser::nn
