// ScoreHead: final norm and one number for each row, the product with the vector score.weight, for reward
// models (Ouyang et al., arXiv:2203.02155). The objective over pairs uses a score as it uses a target's
// log-probability under a language model: a row's loss is its negated score, and the gradient of the score is
// the negated loss weight of the row. The caller sets loss weights other than 0 for the rows that count.
// Every tensor-parallel rank has the full vector and computes the same.
#pragma once

#include "engine/nn/head.h"

namespace hawser::nn {

class ScoreHead : public Head {
 public:
  ScoreHead(const ParameterTable& table, const ModelConfig& model);

  int64_t chunk_rows(const Context& ctx) const override;
  /// Computes losses[rows] = -score, even for masked targets; the gradients are those of sum(weight * loss),
  /// with a loss weight for every row in ctx.weights_BT. *grad_scale is not read: the loss weights already
  /// contain the objective's divisor and the loss scale.
  void forward_backward(const Context& ctx, float* losses, float* dx, const StreamInput& x,
                        const float* grad_scale) const override;
  void forward(const Context& ctx, float* losses, const StreamInput& x) const override;
  void logits(const Context& ctx, float* scores, const void* x, int64_t rows) const override;

 private:
  void score(const Context& ctx, const Rows& rows, float* scores, const StreamInput& x) const;
  void all_scores(const Context& ctx, float* scores, const StreamInput& x, int64_t rows) const;
  void negate(const Context& ctx, float* values, int64_t count) const;
};

}  // namespace hawser::nn
