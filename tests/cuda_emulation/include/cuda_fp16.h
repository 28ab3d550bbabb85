// __half of <cuda_fp16.h>, by the CPU's own conversions, because clang 14 has no half type on x86.
#pragma once

#include <cstdint>

#define HWS_LEVEL emulated
#include "kernels/cpu/simd/scalar.h"
#undef HWS_LEVEL

struct __half {
  uint16_t bits;
};

inline float __half2float(__half x) { return hawser::kernels::emulated::f16_to_f32(x.bits); }
inline __half __float2half_rn(float x) { return {hawser::kernels::emulated::f32_to_f16(x)}; }
