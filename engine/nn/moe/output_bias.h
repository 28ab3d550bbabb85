// OutputBias: the biases of the experts' outputs. y += W B, with W[rows, E] the gate weights of the chosen
// experts, and B[E, C] the biases. Each rank has all biases and computes this for its own rows, so no
// exchange of rows carries it.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/moe/dispatcher.h"
#include "engine/nn/moe/router.h"

namespace hawser::nn {

class OutputBias {
 public:
  /// No biases: the calls do nothing.
  OutputBias(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  /// Adds to y[rows, C].
  void forward(const Context& ctx, const RouterSaved& router, const Routes& routes, float* y) const;
  /// Adds to dweights[rows, k], and computes the gradient of the biases, from dy[rows, C].
  void backward(const Context& ctx, const RouterSaved& router, const Routes& routes, float* dweights,
                const void* dy, DType dy_type) const;

 private:
  kernels::ChosenExperts chosen(const Context& ctx, const RouterSaved& router, const Routes& routes) const;
  const float* spread(const Context& ctx, const RouterSaved& router, const Routes& routes) const;

  Place bias_;
  int64_t experts_, top_k_, width_;
};

}  // namespace hawser::nn
