// Embedding: tokens (and learned positions) into the residual stream. A seam: tensor parallelism splits the
// vocabulary.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/lookup_gradient.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Embedding {
 public:
  /// `model` must outlive the module.
  Embedding(const ParameterTable& table, const ModelConfig& model);

  /// x[rows, C] f32 from ctx.tokens_BT and ctx.positions_BT, dropout included.
  void forward(const Context& ctx, float* x) const;
  /// Weight gradients from dx[rows, C], which is used up. Those of a table that the head shares go to the
  /// rows that `tied` found for the micro-batch.
  void backward(const Context& ctx, float* dx, const LookupGradient* tied = nullptr,
                int32_t micro_batch = 0) const;
  /// Adds what look-ups brought together up to the micro-batch to the table's gradient, which holds the
  /// head's.
  void join(const Context& ctx, const LookupGradient& tied, int32_t micro_batch) const;

 private:
  const ModelConfig& model_;
  Place tokens_, positions_;
};

}  // namespace hawser::nn
