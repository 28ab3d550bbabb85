// Scalar conversions between fp32, bfloat16 and IEEE half, by bits: the same results on every level.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/base/dtype.h"

#define HWS_INLINE inline __attribute__((always_inline))
// HWS_NOINLINE: one copy, where each template that calls the function would inline its own.
#define HWS_NOINLINE __attribute__((noinline))
// HWS_SMALL: one copy of few bytes, for work that takes little time compared with the work that it prepares.
#ifdef __clang__
#define HWS_SMALL __attribute__((noinline, minsize))
#else
#define HWS_SMALL __attribute__((noinline, optimize("Os")))
#endif

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// An IEEE half in memory. bfloat16 is uint16_t, so the two types select functions and templates.
enum class Half : uint16_t {};

HWS_INLINE uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
HWS_INLINE float bits_float(uint32_t x) { return __builtin_bit_cast(float, x); }

HWS_INLINE float bf16_to_f32(uint16_t x) { return bits_float(static_cast<uint32_t>(x) << 16); }

/// Rounds to nearest even; NaN stays NaN (made quiet).
HWS_INLINE uint16_t f32_to_bf16(float x) {
  const uint32_t u = float_bits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

inline float f16_to_f32(uint16_t x) {
  const uint32_t sign = static_cast<uint32_t>(x & 0x8000u) << 16, rest = x & 0x7fffu;
  if (rest >= 0x7c00u) {  // infinity and NaN (made quiet)
    return bits_float(sign | 0x7f800000u | ((rest & 0x3ffu) << 13) | (rest > 0x7c00u ? 0x400000u : 0u));
  }
  if (rest >= 0x400u) return bits_float(sign | ((rest << 13) + (112u << 23)));
  const float magnitude = static_cast<float>(rest) * (1.0f / 16777216.0f);  // subnormal: rest * 2^-24, exact
  return bits_float(sign | float_bits(magnitude));
}

/// Rounds to nearest even; overflow gives infinity; NaN stays NaN (made quiet).
inline uint16_t f32_to_f16(float x) {
  const uint32_t u = float_bits(x), sign = (u >> 16) & 0x8000u, rest = u & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
  if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (rest >= 0x38800000u) {                                              // 2^-14 and above: normal
    return static_cast<uint16_t>(sign | ((rest - (112u << 23) + 0xfffu + ((rest >> 13) & 1u)) >> 13));
  }
  // Subnormal: adding 0.5 puts the unit of the half, 2^-24, at the last bit of the sum, which the addition
  // rounds.
  return static_cast<uint16_t>(sign | (float_bits(bits_float(rest) + 0.5f) - 0x3f000000u));
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
