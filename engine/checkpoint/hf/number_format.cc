#include "engine/checkpoint/hf/number_format.h"

#include <bit>
#include <cstring>

#include "engine/base/error.h"

namespace hawser::checkpoint::hf {
namespace {

uint32_t widen_f16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return sign | 0x7f800000u | mantissa << 13;
  if (exponent != 0) return sign | (exponent + 112) << 23 | mantissa << 13;
  if (mantissa == 0) return sign;
  const int shift = std::countl_zero(mantissa) - 21;  // moves the leading bit to the hidden bit's position
  mantissa = mantissa << shift & 0x3ffu;
  return sign | static_cast<uint32_t>(113 - shift) << 23 | mantissa << 13;
}

uint16_t narrow_f16(uint32_t bits) {
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the payload, but never become infinity
    const uint32_t payload = magnitude >> 13 & 0x3ffu;
    return static_cast<uint16_t>(sign | 0x7c00u | (payload != 0 ? payload : 0x200u));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // from 65520 on
  if (magnitude >= 0x38800000u) {                                              // normal in f16
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
  }
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // below half of the smallest subnormal
  const uint32_t shift = 126 - (magnitude >> 23);                   // 14..24
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
  return static_cast<uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u) != 0) ? 1 : 0)));
}

uint16_t narrow_bf16(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    const uint32_t top = bits >> 16;
    return static_cast<uint16_t>((top & 0x7fu) != 0 ? top : top | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

bool is_finite(uint32_t bits) { return (bits & 0x7f800000u) != 0x7f800000u; }

}  // namespace

bool is_weight_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

void widen(DType dtype, const void* src, int64_t n, float* dst) {
  HWS_CHECK(is_weight_dtype(dtype));
  if (dtype == DType::kF32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * 4);
    return;
  }
  const char* from = static_cast<const char*>(src);
  for (int64_t i = 0; i < n; ++i) {
    uint16_t stored;
    std::memcpy(&stored, from + 2 * i, 2);
    const uint32_t bits = dtype == DType::kBf16 ? static_cast<uint32_t>(stored) << 16 : widen_f16(stored);
    std::memcpy(dst + i, &bits, 4);
  }
}

int64_t narrow(DType dtype, const float* src, int64_t n, void* dst) {
  HWS_CHECK(is_weight_dtype(dtype));
  if (dtype == DType::kF32) {
    std::memcpy(dst, src, static_cast<size_t>(n) * 4);
    return -1;
  }
  const uint16_t infinity = dtype == DType::kBf16 ? 0x7f80 : 0x7c00;
  char* to = static_cast<char*>(dst);
  int64_t overflow = -1;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, src + i, 4);
    const uint16_t stored = dtype == DType::kBf16 ? narrow_bf16(bits) : narrow_f16(bits);
    if (overflow < 0 && (stored & 0x7fff) == infinity && is_finite(bits)) overflow = i;
    std::memcpy(to + 2 * i, &stored, 2);
  }
  return overflow;
}

}  // namespace hawser::checkpoint::hf
