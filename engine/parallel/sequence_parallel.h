// Sequence parallelism (Korthikanti et al., arXiv:2205.05198), an extension of tensor parallelism: between
// branches, ranks also divide the rows of the residual stream, so norms, dropout and what they save are not
// repeated. Rows are B T, flattened; each rank has the same number of consecutive rows, the last ranks fewer.
//
//   enter (g in the paper)             forward: all_gather      backward: reduce_scatter
//   leave (its conjugate)              forward: reduce_scatter  backward: all_gather
//
// A block sends 4 (t-1)/t R C elements forward and 6 (t-1)/t R C backward: its norms' outputs, which are not
// saved, are gathered again for the weights' gradients (R rows, C columns, t ranks). Sums are bit-identical
// to those of tensor parallelism alone. The head works on all rows.
//
// With several chunks (mesh.tp_chunks), the rows that a product reads go around the ring of ranks: while the
// product processes the rows of one rank, the rows of the next one arrive (nn/gathered_rows.h). Products for
// the weights' gradients sum over all rows, so their inputs are gathered first.
#pragma once

#include <memory>

#include "engine/parallel/tensor_parallel.h"

namespace hawser::parallel {

class SequenceParallel final : public TensorParallel {
 public:
  using TensorParallel::TensorParallel;

  nn::LocalRows own_rows(int64_t rows) const override;
  int64_t row_ranks() const override { return ranks(); }
  void* take_rows(const nn::Context& ctx, int64_t row_bytes) const override;
  void gather_rows(const nn::Context& ctx, void* whole, const void* own, DType type,
                   int64_t width) const override;
  bool passes_rows() const override { return chunks() > 1; }
  void begin_pass(const nn::Context& ctx, void* whole, int64_t owner, DType type,
                  int64_t width) const override;
  void begin_sum(const nn::Context& ctx, float* own, float* whole, int64_t begin, int64_t end,
                 int64_t width) const override;
};

/// Creates the exchange of tensor-parallel ranks, with or without sequence parallelism. `chunks`:
/// nn::Exchange::chunks. `wire` must outlive it.
std::unique_ptr<nn::Exchange> make_exchange(bool sequence_parallel, int64_t chunks, BlockWire* wire);

}  // namespace hawser::parallel
