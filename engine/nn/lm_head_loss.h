// LmHeadLoss: final norm, head and cross entropy as one op, chunked over tokens, so that the logits of a
// batch are never stored as a whole. Each chunk's logits are replaced in place by their gradient. Tensor-parallel
// ranks each have the logits of their own words (own_words.h) and exchange three numbers a row: Shoeybi et al.,
// arXiv:1909.08053, section 3.
#pragma once

#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/model_config.h"
#include "engine/nn/norm.h"
#include "engine/nn/own_words.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class LmHeadLoss {
 public:
  /// `model` must outlive the module.
  LmHeadLoss(const ParameterTable& table, const ModelConfig& model);

  /// Rows of one chunk. They depend only on the vocabulary and the backend, so results do not depend on the
  /// batch.
  int64_t chunk_rows(const Context& ctx) const;

  /// Computes losses[rows] (f32, per token, times its weight, 0 if masked), dx[own rows, C] (f32, overwritten) and
  /// the gradients of norm and head, from x[own rows, C], ctx.targets_BT and ctx.weights_BT. *grad_scale = 1 / unmasked targets of the global
  /// batch.
  void forward_backward(const Context& ctx, float* losses, float* dx, const float* x,
                        const float* grad_scale) const;
  /// Computes losses[rows] only.
  void forward(const Context& ctx, float* losses, const float* x) const;
  /// All rows of x, from each rank's own; in the workspace if there are others.
  const float* whole_rows(const Context& ctx, const float* x) const;
  /// Takes workspace for the logits of one chunk of `rows` rows.
  float* take_logits(const Context& ctx, int64_t rows) const;
  /// Computes logits[rows, V] (f32, soft-capped) from `rows` rows of whole_rows.
  void logits(const Context& ctx, float* logits, const float* x, int64_t rows) const;

 private:
  struct Chunk {
    int64_t begin, rows;
    void* n;          // normalised x [rows, C]
    NormSaved saved;  // its statistics
    void* logits;     // [rows, own words], rows `stride` apart
    DType type;
    int64_t stride;
  };
  /// A chunk with its logits in the workspace, in the type and stride that suit the products that read them.
  Chunk take_chunk(const Context& ctx, int64_t begin, int64_t rows) const;
  void compute_logits(const Context& ctx, const Chunk& chunk, const float* x) const;
  void cross_entropy(const Context& ctx, const Chunk& chunk, float* losses, const float* grad_scale,
                     bool backward) const;
  void clear(const Context& ctx, float* logits, int64_t rows) const;
  const void* sum_over_ranks(const Context& ctx, const kernels::Matmul& addend) const;
  void keep_own_rows(const Context& ctx, float* own, const float* whole) const;

  int64_t rows_of_chunk(const Context& ctx, int64_t begin) const;

  const ModelConfig& model_;
  NormLayer norm_;
  OwnWords words_;
  Place weight_;
};

}  // namespace hawser::nn
