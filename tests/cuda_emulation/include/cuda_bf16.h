// __nv_bfloat16 of <cuda_bf16.h> for g++: conversions round to nearest even, every NaN becomes 0x7fff.
#pragma once

#include <stdint.h>

struct __nv_bfloat16 {
  uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16);
}

inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  if (x != x) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
