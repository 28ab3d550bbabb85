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

/// Intermediates from which backward computes the gradients of the weights.
struct FeedForwardMade {
  void* dh = nullptr;  ///< in an MLP: gradient of the up projection's output
  void* a = nullptr;   ///< in an MLP: its activation
  MixtureMade sparse;
};

class FeedForward {
 public:
  FeedForward(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training,
              int64_t layer);

  /// Returns the context for the other calls. Ranks that compute an MLP together exchange rows, and each
  /// computes on all of them. In a mixture, each rank computes on its local rows of the residual stream
  /// without an exchange.
  Context context(const Context& ctx) const;

  /// Takes memory from `region`, and from `kept` for the arrays that the weight pass of a backward reads.
  FeedForwardSaved take_saved(const Context& ctx, Region& region, Region& kept) const;
  /// Return the types of y and dx below. A mixture sums the outputs of experts, in f32.
  DType y_type(const Context& ctx) const { return dense_ ? dense_->y_type(ctx) : DType::kF32; }
  DType dx_type(const Context& ctx) const { return dense_ ? dense_->dx_type(ctx) : DType::kF32; }
  /// Computes addends of y[rows, C] from x[rows, C] (the normalised input, activation type). If y is null, it
  /// computes only the saved activations.
  void forward(const Context& ctx, const FeedForwardSaved& saved, const BranchSum* y, GatheredRows* x) const;
  /// Take memory: the first for arrays that the gradients of all weights need, the second for those that only
  /// the gradients of the down projections need.
  void take_weight_pass_inputs(const Context& ctx, Region& region, FeedForwardMade* made) const;
  void take_activation(const Context& ctx, const FeedForwardSaved& saved, Region& region,
                       FeedForwardMade* made) const;
  /// Computes addends of dx[rows, C] from dy[rows, C], and fills `made`.
  void backward_input(const Context& ctx, const FeedForwardSaved& saved, const FeedForwardMade& made,
                      const BranchSum& dx, GatheredRows* dy, DType dy_type) const;
  /// True if the branch is an MLP that works on some rows at a time. Its backward is then backward_in_tiles,
  /// which reads the branch's input x. It computes the gradients of all weights if `weights` is true;
  /// otherwise it fills `made`.
  bool is_tiled(const Context& ctx) const { return dense_ && ctx.remakes.rows > 0; }
  bool remakes_in_tiles(const Context& ctx) const { return dense_ && Mlp::remakes_in_tiles(ctx); }
  void backward_in_tiles(const Context& ctx, const FeedForwardSaved& saved, const FeedForwardMade& made,
                         const BranchSum& dx, const void* dy, DType dy_type, const void* x,
                         bool weights) const;
  /// Computes the gradients of the down projections.
  void backward_down_weight(const Context& ctx, const FeedForwardSaved& saved, const FeedForwardMade& made,
                            const void* dy, DType dy_type) const;
  /// Computes the gradients of the weights that read x: the up projections and the router.
  void backward_up_weight(const Context& ctx, const FeedForwardSaved& saved, const FeedForwardMade& made,
                          const void* x) const;

  /// Returns rows of x[.., C] that are saved for backward_up_weight. A router reads them unrounded.
  SavedRows saved_input(const Context& ctx, int64_t rows, int64_t width) const {
    return dense_ ? dense_->saved_input(ctx, rows) : SavedRows{false, rows, width};
  }

  /// Returns null for a dense branch.
  const Balance* balance() const { return sparse_ ? &sparse_->balance() : nullptr; }

 private:
  std::optional<Mlp> dense_;
  std::optional<Mixture> sparse_;
};

}  // namespace hawser::nn
