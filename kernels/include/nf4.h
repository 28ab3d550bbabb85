// Decodes weights in 4 bits (NF4, engine/nn/nf4.h) to numbers that a product can read.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// Layout of a tensor's scales, an array of f32: an offset; a DType (f32, bf16 or f16), as a number; the
/// records of the tensor in this call (first, run, stride), as three int32; the shift, an int32: 2^shift of
/// the tensor's records share a largest absmax; the values of the 16 codes; the values of the 256 codes of an
/// absmax; and the largest absmaxes.
struct Nf4Scales {
  static constexpr int64_t kOffset = 0, kType = 1, kFirst = 2, kRun = 3, kStride = 4, kShift = 5, kValues = 6,
                           kAbsmax = kValues + 16, kNested = kAbsmax + 256;
};

/// Record r is number first + r / run * stride + r % run of the tensor: a rank has some rows of a matrix,
/// which are consecutive (run and stride 1), or a part of each row.
///
/// y[i] = value of the i-th code times absmax of its record, rounded to the tensor's own type and then to
/// y's; absmax = value of its code times the largest absmax of its group of records, plus the offset. All of
/// this is in f32, in this order, not fused.
struct Nf4Decode {
  void* y = nullptr;
  DType y_type = DType::kF32;     ///< f32 or bf16
  const void* records = nullptr;  ///< kNf4Record bytes for each kNf4Block numbers; not aligned
  const float* scales = nullptr;
  int64_t n = 0;  ///< number of values, from the first of the first record on
};

}  // namespace hawser::kernels
