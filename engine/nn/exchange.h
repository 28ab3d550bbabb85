// Exchange: communication within a block. A group of ranks may compute a branch (attention or MLP) together,
// each with its own heads, features or columns. The block enters and leaves the branch through this
// interface. Each call has a conjugate in backward: where forward copies, backward sums, and the reverse.
//
//   enter   forward: copy,        or all_gather of rows      backward: all_reduce,  or reduce_scatter to rows
//   leave   forward: all_reduce,  or reduce_scatter to rows  backward: copy,        or all_gather of rows
//
// The left column is tensor parallelism (Megatron-LM, arXiv:1909.08053: f and g), the right one sequence
// parallelism (arXiv:2205.05198: g and its conjugate).
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace hawser::nn {

struct Context;

/// This class is the exchange of a group of one rank, where nothing moves. Others override it. Tensors are
/// [rows, width], dense. A copy may be the input itself; gathered rows are in the context's workspace. Sums
/// are f32 and in place; after a reduce_scatter this rank's rows come first.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Returns the input of the branch's first products, from the block's x.
  virtual const void* enter(const Context&, const void* x, DType /*type*/, int64_t /*width*/) const {
    return x;
  }
  /// Completes the gradient of that x, from this rank's addend.
  virtual void enter_backward(const Context&, float* /*dx*/, int64_t /*width*/) const {}
  /// Completes the branch's output, from this rank's addend.
  virtual void leave(const Context&, float* /*y*/, int64_t /*width*/) const {}
  /// Returns the gradient of each rank's addend, from that of the output.
  virtual const void* leave_backward(const Context&, const void* dy, DType /*type*/,
                                     int64_t /*width*/) const {
    return dy;
  }
};

inline const Exchange kAlone{};

}  // namespace hawser::nn
