// A kernel table that prefers branches of bf16, writes rounded gradients or defers sums (Suited), built from
// one that does not. It runs the norm's backward and the rounding one after the other, and a sum and its norm
// one after the other, so results have the same bits.
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

inline void norm_forward(const kernels::NormForward& args, Stream& stream) {
  kernels::NormForward alone = args;
  alone.residual = {};
  if (args.residual.y != nullptr) base().residual_forward(args.residual, stream);
  base().norm_forward(alone, stream);
}

}  // namespace stream_parts

template <bool kNarrowBranches, bool kRoundedGradients, bool kDefersSums = false>
const kernels::KernelTable& stream_in_parts() {
  static const kernels::Suited suited = [] {
    kernels::Suited s = *stream_parts::base().suited;
    s.narrow_branches = kNarrowBranches;
    s.rounded_gradients = kRoundedGradients;
    s.defers_sums = kDefersSums;
    s.logit_rows = 512;  // the least, so that a head has several chunks
    return s;
  }();
  static const kernels::KernelTable table = [] {
    kernels::KernelTable t = stream_parts::base();
    t.norm_forward = stream_parts::norm_forward;
    t.norm_backward = stream_parts::norm_backward;
    t.suited = &suited;
    return t;
  }();
  return table;
}

}  // namespace hawser::testing
