// OrderedSum: a sum over members in a fixed order, so that reductions between ranks give the same bits
// everywhere.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// out[i] (+)= round(sum over members m of addend(m, i)), n elements, in plain f32 additions.
///   addend   in[m][i]; f32 inputs are rounded to `round_in` first (f32: unchanged). Records of integers
///            (kernels/include/block_records.h) are decoded to f32; i counts from the first of a record.
///   order    members ascending inside groups of `sum_group` (0: all), then the groups' sums ascending; or,
///            with `tree`, one balanced binary tree over adjacent members (a power of two, no groups;
///            not of records).
///   round    rounds the finished sum to `round_to` (f32: unchanged), before it is accumulated.
/// The bits are the same on every level and for every division of i. in: `members` pointers, at least 1.
/// `out` may be any of the f32 inputs; no other overlap. Records begin at even addresses.
struct OrderedSum {
  float* out = nullptr;
  const void* const* in = nullptr;
  DType in_type = DType::kF32;   ///< f32, bf16, f16, kI8Block or kI4Block
  DType round_in = DType::kF32;  ///< f32, bf16 or f16; f32 unless in_type is f32
  DType round_to = DType::kF32;  ///< f32, bf16 or f16
  int32_t members = 0;
  int32_t sum_group = 0;  ///< divides members
  bool tree = false;
  bool accumulate = false;
  int64_t n = 0;
};

}  // namespace hawser::kernels
