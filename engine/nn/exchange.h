// Exchange: communication within a block. A group of ranks may compute a branch (attention or MLP) together,
// each with its own heads, features or words. Modules enter and leave the branch through this
// interface. Each call has a conjugate in backward: where forward copies, backward sums, and the reverse.
//
//   enter   forward: copy,        or all_gather of rows      backward: all_reduce,  or reduce_scatter to rows
//   leave   forward: all_reduce,  or reduce_scatter to rows  backward: copy,        or all_gather of rows
//
// The left column is tensor parallelism (Megatron-LM, arXiv:1909.08053: f and g), the right one sequence
// parallelism (arXiv:2205.05198: g and its conjugate): ranks then also divide the rows of the residual
// stream, and a branch works on all of them.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace hawser::nn {

struct Context;

/// The rows of the residual stream that a rank has, of all rows of a micro-batch.
struct LocalRows {
  int64_t first = 0, count = 0;
  int64_t room = 0;  ///< rows that every rank has memory for; the last ranks may have fewer
};

/// This class is the exchange of a group of one rank, where nothing moves. Others override it
/// (parallel/tensor_parallel.h, parallel/sequence_parallel.h). Tensors are [rows, width], dense; `own` ones
/// have room for LocalRows::room rows, whole ones come from whole_rows or from the context's workspace. Sums
/// are in f32, of addends of the tensor's type. Calls throw what their process group throws.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Number of ranks that compute a branch together, and this rank's place among them.
  virtual int64_t ranks() const { return 1; }
  virtual int64_t rank() const { return 0; }
  /// This rank's rows of a residual stream of `rows`.
  virtual LocalRows own_rows(int64_t rows) const { return {0, rows, rows}; }
  /// Memory for all rows of a branch whose own rows are wanted in `own`: `own` itself, or workspace.
  virtual float* whole_rows(const Context&, float* own, int64_t /*width*/) const { return own; }

  /// Returns all rows of x, from each rank's own rows: the input of the branch's first products.
  virtual const void* enter(const Context&, const void* x, DType /*type*/, int64_t /*width*/) const {
    return x;
  }
  /// Begins to complete the gradient of the own rows of that x, from this rank's addend of all rows. Until
  /// `finish` nothing may use either, and no other call may follow. Work in between runs beside it where
  /// devices exchange.
  virtual void enter_backward(const Context&, float* /*own*/, float* /*whole*/, int64_t /*width*/) const {}
  virtual void finish() const {}
  /// Completes the own rows of the branch's output, from this rank's addend of all rows.
  virtual void leave(const Context&, float* /*own*/, float* /*whole*/, int64_t /*width*/) const {}
  /// Returns the gradient of all rows of each rank's addend, from that of the own rows of the output.
  virtual const void* leave_backward(const Context&, const void* dy, DType /*type*/,
                                     int64_t /*width*/) const {
    return dy;
  }

  // For embedding and head, whose words are divided.

  /// Replaces data[elements], this rank's addend, by the sum over ranks.
  virtual void sum(const Context&, void* /*data*/, DType /*type*/, int64_t /*elements*/) const {}
  /// Fills all[ranks][count] with one array of each rank. This rank's own is already there.
  virtual void gather(const Context&, float* /*all*/, int64_t /*count*/) const {}
};

inline const Exchange kAlone{};

}  // namespace hawser::nn
