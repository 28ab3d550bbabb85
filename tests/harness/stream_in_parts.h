// A kernel table that prefers branches of bf16 or writes rounded gradients (Suited), built from one that does
// not: it runs the norm's backward and the rounding one after the other, so gradients have the same bits.
#pragma once

#include "tests/harness/kernel_levels.h"

namespace hawser::testing {

namespace stream_parts {

inline const kernels::KernelTable& base() { return *kernel_tables().back(); }

/// All rows are dense, as in the residual stream.
inline void norm_backward(const kernels::NormBackward& args, Stream& stream) {
  kernels::NormBackward alone = args;
  alone.rounded = nullptr;
  base().norm_backward(alone, stream);
  if (args.rounded != nullptr)
    base().convert({args.rounded, args.dx, DType::kBf16, DType::kF32, args.rows * args.d}, stream);
}

}  // namespace stream_parts

template <bool kNarrowBranches, bool kRoundedGradients>
const kernels::KernelTable& stream_in_parts() {
  static const kernels::Suited suited = [] {
    kernels::Suited s = *stream_parts::base().suited;
    s.narrow_branches = kNarrowBranches;
    s.rounded_gradients = kRoundedGradients;
    return s;
  }();
  static const kernels::KernelTable table = [] {
    kernels::KernelTable t = stream_parts::base();
    t.norm_backward = stream_parts::norm_backward;
    t.suited = &suited;
    return t;
  }();
  return table;
}

}  // namespace hawser::testing
