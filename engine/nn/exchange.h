// Exchange: where a block asks other ranks for something. A branch (attention or MLP) may be computed by a group of
// ranks, each with its heads, features or columns of it; the block enters the branch and leaves it through here. Each
// call has its conjugate in backward: where forward copies, backward sums, and the reverse.
//
//   enter   forward: copy,        or all_gather of rows      backward: all_reduce,  or reduce_scatter to rows
//   leave   forward: all_reduce,  or reduce_scatter to rows  backward: copy,        or all_gather of rows
//
// The left of each is tensor parallelism (Megatron-LM, arXiv 1909.08053: f and g), the right sequence parallelism
// (arXiv 2205.05198: g and its conjugate).
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace hawser::nn {

struct Context;

/// This class itself is the exchange of a group of one: nothing moves. Others override it. Tensors are [rows, width],
/// dense. A copy may be the input itself; what is gathered lies in the context's workspace. Sums are f32 and in place;
/// where rows are scattered, this rank's end in front.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// What the branch's first products read, from the block's x.
  virtual const void* enter(const Context&, const void* x, DType /*type*/, int64_t /*width*/) const {
    return x;
  }
  /// The gradient of that x, from this rank's addend.
  virtual void enter_backward(const Context&, float* /*dx*/, int64_t /*width*/) const {}
  /// The branch's output, from this rank's addend.
  virtual void leave(const Context&, float* /*y*/, int64_t /*width*/) const {}
  /// The gradient of every rank's addend, from that of the output.
  virtual const void* leave_backward(const Context&, const void* dy, DType /*type*/,
                                     int64_t /*width*/) const {
    return dy;
  }
};

inline const Exchange kAlone{};

}  // namespace hawser::nn
