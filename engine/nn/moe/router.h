// Router: chooses the experts of each row, and their gate weights. The product, the scores and the choice are
// in f32 whatever the compute type, because rounding would change choices. A shared expert's gate is a router
// with one expert.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// Per row: E logits, the indexes of the k chosen experts, k gate weights.
struct RouterSaved {
  float* logits = nullptr;
  int32_t* choice = nullptr;  ///< ascending
  float* weights = nullptr;
};

/// Losses on the router's own logits, whose gradients are added to them.
struct RouterLosses {
  const float* statistics = nullptr;  ///< statistics of full rows of the batch
  float balance_scale = 0, z_scale = 0;
};

/// Computes a product of f32 values in f32, whatever the compute type.
void multiply_f32(const Context& ctx, kernels::Matmul m);

class Router {
 public:
  /// Takes prefix.weight, and prefix.bias and prefix.logit_bias if the table has them. The number of rows in
  /// `shape` is not read.
  Router(const ParameterTable& table, const std::string& prefix, const kernels::RouterShape& shape);

  RouterSaved take_saved(const Context& ctx, Region& region) const;
  /// Chooses experts for x[rows, C], activation type.
  void forward(const Context& ctx, const RouterSaved& saved, const void* x) const;
  /// Takes memory for the gradient of the logits.
  float* take_dlogits(const Context& ctx, Region& region) const {
    return region.take_as<float>(ctx.rows() * shape_.experts);
  }
  /// Fills dlogits, and adds to dx[rows, C]. `place`: dispatch slots; null if no row was dropped.
  void backward_input(const Context& ctx, const RouterSaved& saved, float* dlogits, float* dx,
                      const float* dweights, const int32_t* place, const RouterLosses& losses) const;
  /// Computes the gradients of the weight and of the bias of the logits, from dlogits and the forward's x.
  void backward_weight(const Context& ctx, const float* dlogits, const void* x) const;

  kernels::RouterShape shape(const Context& ctx) const;

 private:
  const float* wide(const Context& ctx, const void* x) const;

  Place weight_, bias_, logit_bias_;
  int64_t width_;
  kernels::RouterShape shape_;
};

}  // namespace hawser::nn
