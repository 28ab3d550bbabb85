// Exchange: communication within a block. A group of ranks may compute a branch (attention or MLP) together,
// each with its own heads, features or vocabulary rows. Modules enter and leave the branch through this
// interface. Each call has a conjugate in backward: if forward copies, backward sums, and vice versa.
//
//   enter   forward: copy,        or all_gather of rows      backward: all_reduce,  or reduce_scatter to rows
//   leave   forward: all_reduce,  or reduce_scatter to rows  backward: copy,        or all_gather of rows
//
// begin_sum and finish carry out both sums, gather_rows both gathers. BranchSum begins a sum for each chunk
// of rows (nn/branch_sum.h), and GatheredRows passes rows from rank to rank (nn/gathered_rows.h), so that
// products and exchanges run at the same time.
// The left column is tensor parallelism (Megatron-LM, arXiv:1909.08053: f and g), the right one sequence
// parallelism (arXiv:2205.05198: g and its conjugate): ranks then also divide the rows of the residual
// stream, and a branch works on all of them.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace hawser::nn {

struct Context;

/// The range of token rows of the residual stream that a rank has, within all rows of a micro-batch.
struct LocalRows {
  int64_t first = 0, count = 0;
  int64_t room = 0;  ///< rows for which every rank has memory; the last ranks may have fewer
};

/// This class serves a group of one rank and moves nothing. Subclasses communicate
/// (parallel/tensor_parallel.h, parallel/sequence_parallel.h). Tensors are [rows, width], dense. `own`
/// tensors have the local rows, with room for LocalRows::room rows; `whole` tensors have all rows and come
/// from take_rows or from the context's workspace. Addends have the tensor's type and are summed in f32.
/// Calls throw the errors of their process group.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Number of ranks that compute a branch together, and this rank's index among them.
  virtual int64_t ranks() const { return 1; }
  virtual int64_t rank() const { return 0; }
  /// Returns this rank's local rows of a residual stream of `rows` rows.
  virtual LocalRows own_rows(int64_t rows) const { return {0, rows, rows}; }
  /// Number of ranks that divide the rows of the residual stream: 1 or ranks().
  virtual int64_t row_ranks() const { return 1; }
  /// Number of chunks in which a product computes rows that are summed over ranks (nn/branch_sum.h).
  virtual int64_t chunks() const { return 1; }
  /// Returns workspace for all rows of a branch, `row_bytes` each, if ranks divide them; else null.
  virtual void* take_rows(const Context&, int64_t /*row_bytes*/) const { return nullptr; }
  /// Returns memory for all rows of a branch whose local rows go to `own`: `own` itself, or workspace.
  float* whole_rows(const Context& ctx, float* own, int64_t width) const {
    void* const whole = take_rows(ctx, width * int64_t{sizeof(float)});
    return whole == nullptr ? own : static_cast<float*>(whole);
  }

  /// Fills `whole`, from take_rows, with the local rows of all ranks.
  virtual void gather_rows(const Context&, void* /*whole*/, const void* /*own*/, DType /*type*/,
                           int64_t /*width*/) const {}
  /// True if GatheredRows passes rows from rank to rank while products compute.
  virtual bool passes_rows() const { return false; }
  /// Begins to send the rows of rank `owner` in `whole` to the next rank, and to receive the rows of the rank
  /// before `owner` from the previous rank. Until `finish`, the sent rows must not be written, and the
  /// received ones must be neither read nor written.
  virtual void begin_pass(const Context&, void* /*whole*/, int64_t /*owner*/, DType /*type*/,
                          int64_t /*width*/) const {}
  /// Begins to sum rows [begin, end) of the local rows over ranks; the sum goes to these rows of `own`.
  /// `whole` has this rank's addends: for rows [begin, end) of each rank that divides rows, rank after rank.
  /// Until `finish`, the caller must not use these rows or addends, and may only begin further sums. On
  /// devices, and if there are several chunks, work in between overlaps with the sum.
  virtual void begin_sum(const Context&, float* /*own*/, float* /*whole*/, int64_t /*begin*/, int64_t /*end*/,
                         int64_t /*width*/) const {}
  /// Completes all sums, or the pass, that were begun.
  virtual void finish() const {}

  // The following calls are for embedding and head, whose vocabulary rows are divided.

  /// Replaces data[elements], this rank's addend, by the sum over ranks.
  virtual void sum(const Context&, void* /*data*/, DType /*type*/, int64_t /*elements*/) const {}
  /// Fills all[ranks][count] with one array of each rank. This rank's own array is already in place.
  virtual void gather(const Context&, float* /*all*/, int64_t /*count*/) const {}
};

inline const Exchange kAlone{};

}  // namespace hawser::nn
