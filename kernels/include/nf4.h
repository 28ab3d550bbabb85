// Weights in 4 bits (NF4, engine/nn/nf4.h) as numbers that a product can read.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Where a tensor's scales, f32, have what: an offset; a DType (f32, bf16 or f16), as a number; what the 16 codes stand for; what
/// the 256 codes of an absmax stand for; and of each kBlocks records in turn the largest absmax.
struct Nf4Scales {
  static constexpr int64_t kOffset = 0, kType = 1, kValues = 2, kAbsmax = kValues + 16,
                           kNested = kAbsmax + 256, kBlocks = 256;
};

/// y[i] = value of the i-th code times absmax of its record, rounded to the tensor's own type and then to y's; absmax = value of its
/// code times the largest of its records, plus the offset. All in f32, in this order, not fused.
struct Nf4Decode {
  void* y = nullptr;
  DType y_type = DType::kF32;     ///< f32 or bf16
  const void* records = nullptr;  ///< kNf4Record bytes for each kNf4Block numbers; not aligned
  const float* scales = nullptr;
  int64_t n = 0;  ///< numbers, from the tensor's first
};

}  // namespace hawser::kernels
