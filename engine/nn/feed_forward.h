// FeedForward: the second branch of a block, an MLP or, in a sparse layer, a mixture of experts.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/nn/context.h"
#include "engine/nn/mlp.h"
#include "engine/nn/moe/mixture.h"

namespace hawser::nn {

struct FeedForwardSaved {
  MlpSaved dense;
  MixtureSaved sparse;
};

/// What the backward makes for the gradients of the weights.
struct FeedForwardMade {
  void* dh = nullptr;  ///< of an MLP: gradient of the up projection's output
  void* a = nullptr;   ///< and its activation
  MixtureMade sparse;
};

class FeedForward {
 public:
  FeedForward(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training,
              int64_t layer);

  /// The context of the other calls. Ranks that compute an MLP together enter it and leave it with all rows.
  /// In a mixture each works on its own rows of the residual stream, and there is no one to exchange them
  /// with.
  Context context(const Context& ctx) const;

  /// `kept`: for the weight half of a backward.
  FeedForwardSaved take_saved(const Context& ctx, Region& region, Region& kept) const;
  /// Computes y[rows, C] (f32) from x[rows, C] (the normalised input, activation type).
  void forward(const Context& ctx, const FeedForwardSaved& saved, float* y, const void* x) const;
  /// Memory for what the gradients of all weights need, and then for what only those of the down projections
  /// do.
  void take_weight_pass_inputs(const Context& ctx, Region& region, FeedForwardMade* made) const;
  void take_activation(const Context& ctx, const FeedForwardSaved& saved, Region& region,
                       FeedForwardMade* made) const;
  /// Computes dx[rows, C] (f32) from dy[rows, C], and fills `made`.
  void backward_input(const Context& ctx, const FeedForwardSaved& saved, const FeedForwardMade& made,
                      float* dx, const void* dy, DType dy_type) const;
  /// The gradients of the down projections.
  void backward_down_weight(const Context& ctx, const FeedForwardSaved& saved, const FeedForwardMade& made,
                            const void* dy, DType dy_type) const;
  /// The gradients of what reads x: the up projections and the router.
  void backward_up_weight(const Context& ctx, const FeedForwardSaved& saved, const FeedForwardMade& made,
                          const void* x) const;

  Place balance_bias() const { return sparse_ ? sparse_->balance_bias() : Place(); }
  int64_t first_tally() const { return sparse_ ? sparse_->first_tally() : 0; }

 private:
  std::optional<Mlp> dense_;
  std::optional<Mixture> sparse_;
};

}  // namespace hawser::nn
