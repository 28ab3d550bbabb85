// Tensor parallelism (Shoeybi et al., Megatron-LM, arXiv:1909.08053): ranks divide each block's heads and
// features, and the vocabulary rows of embedding and head. All ranks hold the same residual stream.
//
//   enter (f in the paper)   forward: copy         backward: all_reduce
//   leave (g in the paper)   forward: all_reduce   backward: copy
//
// Both sums run in chunks of rows, each while the product computes the next one (nn/branch_sum.h).
//
// A block sends 4 (t-1)/t R C elements forward and the same number backward: attention and MLP each leave
// once and enter once, and a sum sends 2 (t-1)/t of its elements (R rows, C columns, t ranks).
#pragma once

#include "engine/nn/exchange.h"
#include "engine/parallel/block_wire.h"

namespace hawser::parallel {

class TensorParallel : public nn::Exchange {
 public:
  /// `wire` must outlive the exchange.
  TensorParallel(BlockWire* wire, int64_t chunks) : wire_(*wire), chunks_(chunks) {}

  int64_t ranks() const override { return wire_.ranks(); }
  int64_t rank() const override { return wire_.rank(); }

  int64_t chunks() const override { return chunks_; }
  void begin_sum(const nn::Context& ctx, float* own, float* whole, int64_t begin, int64_t end,
                 int64_t width) const override;
  void finish() const override { wire_.finish(); }
  void sum(const nn::Context& ctx, void* data, DType type, int64_t elements) const override;
  void gather(const nn::Context& ctx, float* all, int64_t count) const override;

 protected:
  BlockWire& wire_;

 private:
  int64_t chunks_;
};

}  // namespace hawser::parallel
