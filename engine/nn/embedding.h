// Embedding: tokens (and learned positions) into the residual stream. A seam: tensor parallelism splits the
// vocabulary.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Embedding {
 public:
  /// `model` must outlive the module.
  Embedding(const ParameterTable& table, const ModelConfig& model);

  /// x[rows, C] f32 from ctx.tokens_BT and ctx.positions_BT, dropout included.
  void forward(const Context& ctx, float* x) const;
  /// Weight gradients from dx[rows, C], which is used up.
  void backward(const Context& ctx, float* dx) const;

 private:
  const ModelConfig& model_;
  Place tokens_, positions_;
};

}  // namespace hawser::nn
