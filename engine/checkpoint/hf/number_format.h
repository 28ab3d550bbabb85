// Number formats: convert stored numbers (F32, BF16, F16) to f32 and back, bit by bit. Widening is exact,
// including subnormals, infinities and NaN payloads, and narrowing restores widened values exactly. Other
// values round to nearest, ties to even.
#pragma once

#include <cstdint>

#include "engine/base/dtype.h"

namespace hawser::checkpoint::hf {

bool is_weight_dtype(DType dtype);  ///< F32, BF16 or F16

/// Widens dst[i] = src[i] for n elements of `dtype` (little-endian, any alignment).
void widen(DType dtype, const void* src, int64_t n, float* dst);

/// Narrows dst[i] = src[i]. Returns the index of the first finite value that becomes infinite in the dtype,
/// or -1.
int64_t narrow(DType dtype, const float* src, int64_t n, void* dst);

}  // namespace hawser::checkpoint::hf
