// LmHeadLoss: final norm, head and cross entropy as one op, chunked over tokens, so that the logits of a
// batch are never stored whole. Each chunk's logits become the loss and, in place, their own gradient. A
// seam: tensor parallelism splits the vocabulary.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/norm.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class LmHeadLoss {
 public:
  /// `model` must outlive the module.
  LmHeadLoss(const ParameterTable& table, const ModelConfig& model);

  /// Rows of one chunk: a function of the vocabulary and the backend alone, so results do not depend on the
  /// batch.
  int64_t chunk_rows(const Context& ctx) const;

  /// losses[rows] (f32, per token, 0 where masked), dx[rows, C] f32 (overwritten) and the gradients of norm
  /// and head, from x[rows, C] and ctx.targets_BT. *grad_scale = 1 / unmasked targets of the global batch.
  void forward_backward(const Context& ctx, float* losses, float* dx, const float* x,
                        const float* grad_scale) const;
  /// losses[rows] alone.
  void forward(const Context& ctx, float* losses, const float* x) const;
  /// Room in the workspace for the logits of a chunk out of `rows` rows.
  float* take_logits(const Context& ctx, int64_t rows) const;
  /// logits[rows, V] f32, soft-capped, of `rows` rows of x.
  void logits(const Context& ctx, float* logits, const float* x, int64_t rows) const;

 private:
  struct Chunk {
    int64_t begin, rows;
    void* n;          // normalised x [rows, C]
    NormSaved saved;  // its statistics
    void* logits;     // [rows, V], rows `stride` apart
    DType type;
    int64_t stride;
  };
  /// A chunk whose logits stand in the workspace, of the type and stride that the next products like to read.
  Chunk take_chunk(const Context& ctx, int64_t begin, int64_t rows) const;
  void compute_logits(const Context& ctx, const Chunk& chunk, const float* x) const;
  void cross_entropy(const Context& ctx, const Chunk& chunk, float* losses, const float* grad_scale,
                     bool backward) const;

  int64_t rows_of_chunk(const Context& ctx, int64_t begin) const;

  const ModelConfig& model_;
  NormLayer norm_;
  Place weight_;
};

}  // namespace hawser::nn
