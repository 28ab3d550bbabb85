// SharedExpert: the MLP of a mixture through which every row passes. It may have a gate: a logit for each
// row, whose sigmoid multiplies the activation before `down`, as the gate weights of experts do.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/nn/context.h"
#include "engine/nn/linear.h"
#include "engine/nn/model_config.h"
#include "engine/nn/moe/router.h"

namespace hawser::nn {

/// Per row: F (gated: 2F) elements before the activation, and with a gate the activations that a router of
/// one expert saves.
struct SharedExpertSaved {
  void* h = nullptr;
  RouterSaved gate;
};

/// Intermediates from which backward computes the gradients of the weights.
struct SharedExpertMade {
  void* dh = nullptr;
  void* a = nullptr;  ///< the activation, times the gate
  float* dlogits = nullptr;
};

class SharedExpert {
 public:
  SharedExpert(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  SharedExpertSaved take_saved(const Context& ctx, Region& region) const;
  /// Computes y[rows, C] (f32) from x[rows, C], activation type.
  void forward(const Context& ctx, const SharedExpertSaved& saved, float* y, const void* x) const;
  /// Take memory: the first for arrays that the up projection's gradient needs, the second for those that
  /// only the down projection's gradient needs.
  void take_weight_pass_inputs(const Context& ctx, Region& region, SharedExpertMade* made) const;
  void take_activation(const Context& ctx, Region& region, SharedExpertMade* made) const;
  /// Computes dx[rows, C] (f32) from dy[rows, C].
  void backward_input(const Context& ctx, const SharedExpertSaved& saved, const SharedExpertMade& made,
                      float* dx, const void* dy, DType dy_type) const;
  void backward_down_weight(const Context& ctx, const SharedExpertMade& made, const void* dy,
                            DType dy_type) const;
  void backward_up_weight(const Context& ctx, const SharedExpertMade& made, const void* x) const;

 private:
  kernels::ExpertActivation activation(const Context& ctx, const SharedExpertSaved& saved) const;

  bool gated_;
  kernels::Activation kind_;
  Linear up_, down_;
  std::optional<Router> gate_;
};

}  // namespace hawser::nn
