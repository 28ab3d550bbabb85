// Weights in 4 bits (NF4, engine/nn/nf4.h) as numbers that a product can read.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Where a tensor's scales, f32, have what: an offset; a DType (f32, bf16 or f16), as a number; which records
/// of the tensor these are, as three int32; how many of the tensor's records share a largest absmax, as an
/// int32, the power of two; what the 16 codes stand for; what the 256 codes of an absmax stand for; and the
/// largest absmax.
struct Nf4Scales {
  static constexpr int64_t kOffset = 0, kType = 1, kFirst = 2, kRun = 3, kStride = 4, kShift = 5, kValues = 6,
                           kAbsmax = kValues + 16, kNested = kAbsmax + 256;
};

/// Record r is number first + r / run * stride + r % run of the tensor: a rank has some rows of a matrix,
/// which follow each other (run and stride 1), or of each row a part.
///
/// y[i] = value of the i-th code times absmax of its record, rounded to the tensor's own type and then to
/// y's; absmax = value of its code times the largest of its records, plus the offset. All in f32, in this
/// order, not fused.
struct Nf4Decode {
  void* y = nullptr;
  DType y_type = DType::kF32;     ///< f32 or bf16
  const void* records = nullptr;  ///< kNf4Record bytes for each kNf4Block numbers; not aligned
  const float* scales = nullptr;
  int64_t n = 0;  ///< numbers, from the first record's first
};

}  // namespace hawser::kernels
