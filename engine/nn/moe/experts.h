// Experts: many MLPs, each over its own rows, as one product per projection. The weight of a choice multiplies the activation
// before `down`, which is linear: so its gradient needs nothing saved.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/moe/dispatcher.h"

namespace hawser::nn {

/// Per place: F (gated: 2F) elements before the activation. Activation type.
struct ExpertsSaved {
  void* h = nullptr;
};

class Experts {
 public:
  Experts(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  ExpertsSaved take_saved(const Context& ctx, Region& region, int64_t places) const;
  /// Computes y[places, C] (f32) from x[places, C], activation type, with the weights[rows, k] of the choices.
  void forward(const Context& ctx, const ExpertsSaved& saved, const Routes& routes, const float* weights,
               float* y, const void* x, int64_t places) const;
  /// Memory for the gradient of the up projection's output, and for the weighted activation.
  void* take_dh(const Context& ctx, Region& region, int64_t places) const;
  void* take_activation(const Context& ctx, Region& region, int64_t places) const;
  /// Computes dx[places, C] (f32) and dweights[rows, k] from dy[places, C]. Fills `dh` and `a`.
  void backward_input(const Context& ctx, const ExpertsSaved& saved, const Routes& routes,
                      const float* weights, void* dh, void* a, float* dweights, float* dx, const void* dy,
                      DType dy_type, int64_t places) const;
  void backward_down_weight(const Context& ctx, const Routes& routes, const void* a, const void* dy,
                            DType dy_type, int64_t places) const;
  void backward_up_weight(const Context& ctx, const Routes& routes, const void* dh, const void* x,
                          int64_t places) const;

 private:
  kernels::ExpertActivation activation(const Context& ctx, const ExpertsSaved& saved, const Routes& routes,
                                       const float* weights, int64_t places) const;
  kernels::GroupedMatmul product(const Context& ctx, const Routes& routes, int64_t places) const;
  void run(const Context& ctx, kernels::GroupedMatmul m) const;

  bool gated_;
  kernels::Activation kind_;
  int64_t experts_, width_, features_, out_;  // C, F, F or 2F
  Place gate_, up_, down_;
};

}  // namespace hawser::nn
