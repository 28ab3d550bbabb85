// Mixture: a sparse feed-forward branch, made of router, dispatcher, experts, and the expert that all rows
// share.
//
//   y = shared(x) + sum over the chosen experts e, ascending, of down_e(weight_e act(up_e(x)))
#pragma once

#include <cstdint>
#include <optional>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/moe/balance.h"
#include "engine/nn/moe/dispatcher.h"
#include "engine/nn/moe/experts.h"
#include "engine/nn/moe/output_bias.h"
#include "engine/nn/moe/router.h"
#include "engine/nn/moe/shared_expert.h"

namespace hawser::nn {

/// Choices and gate weights are saved, so that rows are routed only once. Bytes per row, with e bytes per
/// element of the activation type and F' = F or, gated, 2F, and F's the same for the shared expert:
///   4 (E + 4k) + e k F'  + e F's  + 12 with a shared gate
/// and 4 (E + 1) once, and 4 (2E + 1) per row of the batch. Each array is rounded up to 64 bytes. The weight
/// pass of a backward reads order and offsets, 4k per row and 4 (E + 1).
struct MixtureSaved {
  RouterSaved router;
  float* statistics = nullptr;
  Routes routes;
  ExpertsSaved experts;
  SharedExpertSaved shared;
};

/// Intermediates from which backward computes the gradients of the weights. Per row e k F' + 4E bytes for the
/// up projections, e k F for the down projections, and those of the shared expert.
struct MixtureMade {
  float* dlogits = nullptr;
  ExpertsMade experts;
  SharedExpertMade shared;
};

class Mixture {
 public:
  Mixture(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training, int64_t layer);

  MixtureSaved take_saved(const Context& ctx, Region& region, Region& kept) const;
  void forward(const Context& ctx, const MixtureSaved& saved, float* y, const void* x) const;
  void take_weight_pass_inputs(const Context& ctx, Region& region, MixtureMade* made) const;
  void take_activation(const Context& ctx, Region& region, MixtureMade* made) const;
  void backward_input(const Context& ctx, const MixtureSaved& saved, const MixtureMade& made, float* dx,
                      const void* dy, DType dy_type) const;
  void backward_down_weight(const Context& ctx, const MixtureSaved& saved, const MixtureMade& made,
                            const void* dy, DType dy_type) const;
  void backward_up_weight(const Context& ctx, const MixtureSaved& saved, const MixtureMade& made,
                          const void* x) const;

  const Balance& balance() const { return balance_; }

 private:
  RoutedRows routed(const MixtureSaved& saved) const {
    return {dispatcher_, experts_, saved.routes, saved.router.weights};
  }

  Router router_;
  Dispatcher dispatcher_;
  Experts experts_;
  OutputBias output_bias_;
  Balance balance_;
  std::optional<SharedExpert> shared_;
};

}  // namespace hawser::nn
