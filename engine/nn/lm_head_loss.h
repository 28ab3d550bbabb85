// LmHeadLoss: final norm, head and cross entropy as one op, chunked over tokens, so that the logits of a
// batch are never stored in full. Each chunk's logits are replaced in place by their gradient. Each
// tensor-parallel rank has the logits of its vocabulary rows (vocab_shard.h), and the ranks exchange three
// numbers for each token row (Shoeybi et al., arXiv:1909.08053, section 3).
#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/head.h"
#include "engine/nn/vocab_shard.h"

namespace hawser::nn {

class LmHeadLoss : public Head {
 public:
  LmHeadLoss(const ParameterTable& table, const ModelConfig& model, const std::string& norm = "final_norm");

  int64_t chunk_rows(const Context& ctx) const override;
  /// Computes losses times the targets' loss weights, 0 if masked. *grad_scale = 1 / unmasked targets of the
  /// global batch.
  void forward_backward(const Context& ctx, float* losses, float* dx, const StreamInput& x,
                        const float* grad_scale) const override;
  void forward(const Context& ctx, float* losses, const StreamInput& x) const override;
  /// Computes soft-capped logits.
  void logits(const Context& ctx, float* logits, const void* x, int64_t rows) const override;

  /// Computes forward_backward from x and dx of all rows. `adds`: adds to the gradient of the head's matrix,
  /// which an earlier call has written.
  void forward_backward_rows(const Context& ctx, float* losses, float* dx, const StreamInput& x,
                             const float* grad_scale, bool adds) const;
  /// The norm before the head's matrix.
  const NormLayer& norm() const { return norm_; }

 protected:
  /// Adds what a model learns from the same rows besides the next token: losses behind those of the next
  /// token, and their gradients to dx. x, dx: all rows.
  virtual void add_further(const Context& /*ctx*/, float* /*losses*/, float* /*dx*/,
                           const void* /*x*/) const {}

 private:
  struct Chunk {
    Rows rows;
    void* logits;  // [rows, columns], rows `stride` apart: local vocabulary, then zeros up to a full tile
    DType type;
    int64_t columns, stride;
  };
  /// A chunk with its logits in the workspace, in the type and stride that suit the products that read them.
  Chunk take_chunk(const Context& ctx, int64_t begin, int64_t rows) const;
  void compute_logits(const Context& ctx, const Chunk& chunk, const StreamInput& x) const;
  void cross_entropy(const Context& ctx, const Chunk& chunk, float* losses, const float* grad_scale,
                     bool backward) const;
  void clear(const Context& ctx, float* logits, int64_t rows) const;
  const void* sum_over_ranks(const Context& ctx, const kernels::Matmul& addend) const;

  VocabShard words_;
};

}  // namespace hawser::nn
