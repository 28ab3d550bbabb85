// Dispatcher: brings rows to their experts, sorted by expert, and adds an expert's outputs up for each row.
// Rows of one expert keep their order, and a row's sum is in the order of its experts.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"

namespace hawser::nn {

/// Where rows go. A row has k choices; each has a place among the rows of all experts, unless capacity drops
/// it.
struct Routes {
  int32_t* place = nullptr;    ///< [rows, k]
  int32_t* order = nullptr;    ///< [rows k] choices by place
  int32_t* offsets = nullptr;  ///< [E + 1] first place of each expert
};

class Dispatcher {
 public:
  Dispatcher(const ModelConfig& model, const MoeTraining& training);

  /// `kept`: for the weight half of a backward.
  Routes take_saved(const Context& ctx, Region& region, Region& kept) const;
  /// Finds the routes of the choices. In training, capacity may drop some.
  void route(const Context& ctx, const Routes& routes, const int32_t* choice) const;
  /// Returns x[rows, C] by place, k rows for each, in the workspace.
  const void* dispatch(const Context& ctx, const Routes& routes, const void* x, DType type) const;
  /// y[rows, C] (+)= the sums of what came from the experts, by place, rounded to the activation type; f32.
  void combine(const Context& ctx, const Routes& routes, float* y, const float* by_place,
               bool accumulate) const;

  int64_t places(const Context& ctx) const { return ctx.rows() * top_k_; }
  int64_t experts() const { return experts_; }
  int64_t top_k() const { return top_k_; }

 private:
  int64_t experts_, top_k_, width_;
  double capacity_factor_;
};

}  // namespace hawser::nn
