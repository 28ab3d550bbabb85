// ScoreHead: final norm and one number a row, the product with the vector score.weight, for reward models
// (Ouyang et al., arXiv:2203.02155). To the objective over pairs a score is what a target's log-probability
// is under a language model, so a row's loss is its score, negated, and its gradient is the row's weight.
// Which row counts is for whoever sets the weights: 0 elsewhere. Tensor-parallel ranks all have the whole
// vector and compute the same.
#pragma once

#include "engine/nn/head.h"

namespace hawser::nn {

class ScoreHead : public Head {
 public:
  ScoreHead(const ParameterTable& table, const ModelConfig& model);

  int64_t chunk_rows(const Context& ctx) const override;
  /// losses[rows] = -score, also where the target is masked; gradients are those of sum(weight * loss), with
  /// a weight for every row in ctx.weights_BT. *grad_scale is not read: the weights have the objective's
  /// divisor.
  void forward_backward(const Context& ctx, float* losses, float* dx, const float* x,
                        const float* grad_scale) const override;
  void forward(const Context& ctx, float* losses, const float* x) const override;
  void logits(const Context& ctx, float* scores, const float* x, int64_t rows) const override;

 private:
  void score(const Context& ctx, const Rows& rows, float* scores, const float* x) const;
  void negate(const Context& ctx, float* values, int64_t count) const;
};

}  // namespace hawser::nn
