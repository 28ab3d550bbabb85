#include "engine/nn/moe/dispatcher.h"

#include <cmath>

namespace hawser::nn {

Dispatcher::Dispatcher(const ModelConfig& model, const MoeTraining& training)
    : experts_(model.moe.experts),
      top_k_(model.moe.top_k),
      width_(model.width),
      capacity_factor_(training.capacity_factor) {}

Routes Dispatcher::take_saved(const Context& ctx, Region& region, Region& kept) const {
  Routes routes;
  routes.place = region.take_as<int32_t>(places(ctx));
  routes.order = kept.take_as<int32_t>(places(ctx));
  routes.offsets = kept.take_as<int32_t>(experts_ + 1);
  return routes;
}

void Dispatcher::route(const Context& ctx, const Routes& routes, const int32_t* choice) const {
  RegionScope scope(*ctx.workspace);
  kernels::GroupRows g;
  g.offsets = routes.offsets;
  g.order = routes.order;
  g.place = routes.place;
  g.choice = choice;
  g.rows = ctx.rows(), g.top_k = top_k_, g.experts = experts_;
  if (ctx.training && capacity_factor_ > 0) {
    const double share = static_cast<double>(places(ctx)) / static_cast<double>(experts_);
    g.capacity = static_cast<int64_t>(std::ceil(capacity_factor_ * share));
  }
  g.workspace = ctx.workspace->take_as<int32_t>(experts_);
  ctx.kernels->group_rows(g, *ctx.stream);
}

const void* Dispatcher::dispatch(const Context& ctx, const Routes& routes, const void* x, DType type) const {
  kernels::GatherRows g;
  g.y = ctx.workspace->take(places(ctx) * width_ * dtype_bytes(type));
  g.x = x;
  g.order = routes.order;
  g.end = routes.offsets + experts_;
  g.type = type;
  g.rows = places(ctx), g.top_k = top_k_, g.d = width_;
  ctx.kernels->gather_rows(g, *ctx.stream);
  return g.y;
}

void Dispatcher::combine(const Context& ctx, const Routes& routes, float* y, const float* by_place,
                         bool accumulate) const {
  kernels::CombineRows c;
  c.y = y;
  c.x = by_place;
  c.place = routes.place;
  c.rows = ctx.rows(), c.top_k = top_k_, c.d = width_;
  c.accumulate = accumulate;
  c.round_to = ctx.type;
  ctx.kernels->combine_rows(c, *ctx.stream);
}

}  // namespace hawser::nn
