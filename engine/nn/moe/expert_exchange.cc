#include "engine/nn/moe/expert_exchange.h"

#include "engine/nn/context.h"
#include "engine/nn/moe/dispatcher.h"
#include "engine/nn/moe/experts.h"

namespace hawser::nn {
namespace {

/// Returns all rows of all experts.
ExpertRows all_of(const Context& ctx, const RoutedRows& r) {
  const int64_t places = r.dispatcher.places(ctx);
  return {r.routes.offsets, r.weights, r.routes.order, places, places};
}

}  // namespace

ExpertsSaved ExpertExchange::take_saved(const Context& ctx, const Dispatcher& dispatcher,
                                        const Experts& experts, Region& region, Region& /*kept*/) const {
  ExpertsSaved saved;
  saved.h = experts.take_dh(ctx, region, dispatcher.places(ctx));
  return saved;
}

int64_t ExpertExchange::forward(const Context& ctx, const RoutedRows& r, const ExpertsSaved& saved, float* y,
                                const void* x, bool accumulate) const {
  const RegionScope scope(*ctx.workspace);
  float* const by_place =
      y != nullptr ? ctx.workspace->take_as<float>(r.dispatcher.places(ctx) * r.experts.width()) : nullptr;
  {
    const RegionScope of_input(*ctx.workspace);
    const void* const rows = r.dispatcher.dispatch(ctx, r.routes, x, ctx.type);
    r.experts.forward(ctx, saved.h, all_of(ctx, r), by_place, rows);
  }
  if (y != nullptr) r.dispatcher.combine(ctx, r.routes, y, by_place, accumulate);
  return 1;
}

void ExpertExchange::take_weight_pass_inputs(const Context& ctx, const Dispatcher& dispatcher,
                                             const Experts& experts, Region& region,
                                             ExpertsMade* made) const {
  made->dh = experts.take_dh(ctx, region, dispatcher.places(ctx));
}

void ExpertExchange::take_activation(const Context& ctx, const Dispatcher& dispatcher, const Experts& experts,
                                     Region& region, ExpertsMade* made) const {
  made->a = experts.take_activation(ctx, region, dispatcher.places(ctx));
}

void ExpertExchange::backward_input(const Context& ctx, const RoutedRows& r, const ExpertsSaved& saved,
                                    const ExpertsMade& made, float* dx, float* dweights, const void* dy,
                                    DType dy_type, bool accumulate) const {
  auto* const by_place = ctx.workspace->take_as<float>(r.dispatcher.places(ctx) * r.experts.width());
  {
    const RegionScope of_gradient(*ctx.workspace);
    const void* const rows = r.dispatcher.dispatch(ctx, r.routes, dy, dy_type);
    r.experts.backward_input(ctx, saved.h, all_of(ctx, r), made.dh, made.a, dweights, by_place, rows,
                             dy_type);
  }
  r.dispatcher.combine(ctx, r.routes, dx, by_place, accumulate);
}

void ExpertExchange::backward_down_weight(const Context& ctx, const RoutedRows& r,
                                          const ExpertsSaved& /*saved*/, const ExpertsMade& made,
                                          const void* dy, DType dy_type) const {
  const RegionScope scope(*ctx.workspace);
  const void* const rows = r.dispatcher.dispatch(ctx, r.routes, dy, dy_type);
  r.experts.backward_down_weight(ctx, all_of(ctx, r), made.a, rows, dy_type);
}

void ExpertExchange::backward_up_weight(const Context& ctx, const RoutedRows& r,
                                        const ExpertsSaved& /*saved*/, const ExpertsMade& made,
                                        const void* x) const {
  const RegionScope scope(*ctx.workspace);
  const void* const rows = r.dispatcher.dispatch(ctx, r.routes, x, ctx.type);
  r.experts.backward_up_weight(ctx, all_of(ctx, r), made.dh, rows);
}

}  // namespace hawser::nn
