// Dispatcher: sorts rows by expert, and adds up the outputs of each row's experts. Rows of one expert keep
// their order, and a row's sum is in the order of its experts.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"

namespace hawser::nn {

/// The routes of rows. A row has k choices. Each choice has a dispatch slot among the rows of all experts,
/// unless capacity drops it.
struct Routes {
  int32_t* place = nullptr;    ///< [rows, k] dispatch slot of each choice
  int32_t* order = nullptr;    ///< [rows k] choice in each dispatch slot
  int32_t* offsets = nullptr;  ///< [E + 1] first dispatch slot of each expert
};

class Dispatcher {
 public:
  Dispatcher(const ModelConfig& model, const MoeTraining& training);

  /// Takes memory from `region`, and from `kept` for the arrays that the weight pass of a backward reads.
  Routes take_saved(const Context& ctx, Region& region, Region& kept) const;
  /// Computes the routes of the choices. In training, the capacity limit may drop some.
  void route(const Context& ctx, const Routes& routes, const int32_t* choice) const;
  /// Returns x[rows, C] in the order of dispatch slots, with k copies of each row, in the workspace.
  const void* dispatch(const Context& ctx, const Routes& routes, const void* x, DType type) const;
  /// Computes y[rows, C] (+)= the sums of the experts' outputs. These come by dispatch slot and are rounded
  /// to the activation type first; y is f32.
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
