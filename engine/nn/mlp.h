// The feed-forward branch: up projection, GELU or a gated activation, down projection.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/linear.h"
#include "engine/nn/model_config.h"

namespace hawser::nn {

/// Per row: F (gated: 2F) elements before the activation, and F after it if the activation is fused into
/// products. Activation type.
struct MlpSaved {
  void* h = nullptr;
  void* a = nullptr;
};

class Mlp {
 public:
  Mlp(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  MlpSaved take_saved(const Context& ctx, Region& region) const;
  /// Computes y[rows, C] (f32) from x[rows, C] (the normalised input, activation type).
  void forward(const Context& ctx, const MlpSaved& saved, float* y, const void* x) const;
  /// Computes dx[rows, C] (f32) from dy[rows, C], and the gradients of the down projection. Returns the
  /// gradient of the up projection's output, in the workspace until the caller's scope ends.
  const void* backward(const Context& ctx, const MlpSaved& saved, float* dx, const void* dy,
                       DType dy_type) const;
  /// The gradients of the up projection, from that gradient and the forward's x.
  void backward_up_weight(const Context& ctx, const void* dh, const void* x) const;

 private:
  bool in_products(const Context& ctx) const;
  void activation_backward(const Context& ctx, const MlpSaved& saved, void* dh, void* da) const;

  bool gated_;
  kernels::Activation kind_;
  Linear up_, down_;
};

}  // namespace hawser::nn
