// Embedding: adds the embeddings of tokens (and learned positions) to the residual stream. Each
// tensor-parallel rank looks up the tokens of its part of the vocabulary (vocab_shard.h); the sum over ranks
// covers all tokens.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/lookup_gradient.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"
#include "engine/nn/vocab_shard.h"

namespace hawser::nn {

class Embedding {
 public:
  /// `model` must outlive the module.
  Embedding(const ParameterTable& table, const ModelConfig& model);

  /// Computes x[rows, C] (ctx.residual_type) from ctx.tokens_BT and ctx.positions_BT, with dropout.
  void forward(const Context& ctx, void* x) const;
  /// Computes x[local rows, C] (ctx.residual_type) from ctx.tokens_BT alone, without dropout; 0 for token -1.
  void look_up_tokens(const Context& ctx, void* x) const { look_up(ctx, x, false); }
  /// Computes the gradient of the table from dx of all rows of look_up_tokens.
  void add_tokens(const Context& ctx, const float* dx) const;
  /// Computes weight gradients from dx[rows, C], which is overwritten. If the head shares the table, the
  /// gradients go to the rows that `tied` assigned to the micro-batch.
  void backward(const Context& ctx, float* dx, const LookupGradient* tied = nullptr,
                int32_t micro_batch = 0) const;
  /// Adds the look-up gradients collected up to the micro-batch to the table's gradient, which already
  /// contains the head's part.
  void join(const Context& ctx, const LookupGradient& tied, int32_t micro_batch) const;

 private:
  void look_up(const Context& ctx, void* x, bool adds_positions) const;
  kernels::EmbeddingBackward of_tokens(const Context& ctx, const float* dx) const;
  void add_rows(const Context& ctx, kernels::EmbeddingBackward b) const;

  const ModelConfig& model_;
  VocabShard words_;
  Place tokens_, positions_;
};

}  // namespace hawser::nn
