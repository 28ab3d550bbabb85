// Router: from rows to the experts that each goes to, and their weights. Product, scores and choice are f32
// under every precision, because rounding would change choices. A shared expert's gate is a router with one
// expert.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

/// Per row: E logits, k numbers of experts, k weights.
struct RouterSaved {
  float* logits = nullptr;
  int32_t* choice = nullptr;  ///< ascending
  float* weights = nullptr;
};

/// The gradients of losses of a router's own, which come to its logits.
struct RouterLosses {
  const float* statistics = nullptr;  ///< of whole rows of the batch
  float balance_scale = 0, z_scale = 0;
};

class Router {
 public:
  /// Takes prefix.weight, and prefix.bias if the table has one. `shape` has no rows.
  Router(const ParameterTable& table, const std::string& prefix, const kernels::RouterShape& shape);

  RouterSaved take_saved(const Context& ctx, Region& region) const;
  /// Chooses for x[rows, C], activation type.
  void forward(const Context& ctx, const RouterSaved& saved, const void* x) const;
  /// Memory for the gradient of the logits.
  float* take_dlogits(const Context& ctx, Region& region) const {
    return region.take_as<float>(ctx.rows() * shape_.experts);
  }
  /// Fills dlogits, and adds to dx[rows, C]. `place`: of dispatched rows; null: none was dropped.
  void backward_input(const Context& ctx, const RouterSaved& saved, float* dlogits, float* dx,
                      const float* dweights, const int32_t* place, const RouterLosses& losses) const;
  /// The gradient of the weight, from dlogits and the forward's x.
  void backward_weight(const Context& ctx, const float* dlogits, const void* x) const;

  kernels::RouterShape shape(const Context& ctx) const;

 private:
  const float* wide(const Context& ctx, const void* x) const;

  Place weight_, bias_;
  int64_t width_;
  kernels::RouterShape shape_;
};

}  // namespace hawser::nn
