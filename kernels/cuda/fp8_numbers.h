// Numbers of fp8 on the device, by the formulas of kernels/include/fp8_records.h and fp8_round.h: the bits
// of a maximum, the code of a number, and the number that a code stands for.
#pragma once

#include "kernels/cuda/packed.h"
#include "kernels/include/fp8_round.h"

namespace hawser::kernels::cuda {

__device__ __forceinline__ unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }
__device__ __forceinline__ float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }

/// Returns the bits of |x|, or 0 if x is not finite. Floats that are not negative have the order of their
/// bits.
__device__ __forceinline__ unsigned finite_size(float x) {
  const unsigned size = bits_of(x) & 0x7fffffffu;
  return size < 0x7f800000u ? size : 0;
}

/// 2^e and the largest code, for numbers whose largest magnitude has these bits.
struct Fp8Scale {
  Fp8Format format;
  int exponent;  ///< e + 127
  unsigned largest;

  __device__ Fp8Scale(const Fp8Format& f, unsigned maximum, int margin)
      : format(f), exponent(fp8_exponent(f, maximum, margin)) {
    largest = static_cast<unsigned>(exponent == f.largest_exponent ? f.code_at_largest : f.largest_code);
  }
  __device__ float up() const { return float_of(static_cast<unsigned>(exponent) << 23); }
  __device__ float down() const { return float_of(static_cast<unsigned>(254 - exponent) << 23); }
  /// The number of the largest code, before it is scaled.
  __device__ float most() const {
    return float_of((largest << (23 - format.fraction_bits)) +
                    (static_cast<unsigned>(127 - format.bias) << 23));
  }
};

/// Rounds numbers to those of the format.
struct Fp8Rounding {
  int shift;
  float down, up, most;
  unsigned least;

  __device__ explicit Fp8Rounding(const Fp8Scale& s)
      : shift(23 - s.format.fraction_bits),
        down(s.down()),
        up(s.up()),
        most(s.most()),
        least(static_cast<unsigned>(128 - s.format.bias) << 23) {}

  /// Returns |x| as a number of the format before it is scaled, saturating. The addition rounds to nearest.
  __device__ float size_of(float x, float* unit) const {
    const float size = float_of(bits_of(x) & 0x7fffffffu), scaled = size * down < most ? size * down : most;
    const unsigned own = bits_of(scaled) & 0x7f800000u;
    *unit = float_of((own > least ? own : least) + (static_cast<unsigned>(shift) << 23));
    return scaled + *unit;
  }
  __device__ static bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

  /// Returns the bits of a bf16 number.
  __device__ uint16_t rounded(float x) const {
    float unit;
    const float sum = size_of(x, &unit);
    unsigned bits = bits_of((sum - unit) * up) | (bits_of(x) & 0x80000000u);
    if (!is_finite(x)) bits = 0x7fc00000u;
    return static_cast<uint16_t>(bits >> 16);
  }
  /// Returns the code of the same number.
  __device__ unsigned code(float x) const {
    float unit;
    const float sum = size_of(x, &unit);
    const unsigned exponent = bits_of(unit) - (static_cast<unsigned>(shift) << 23);
    const unsigned code = bits_of(sum) - bits_of(unit) + ((exponent - least) >> shift);
    return is_finite(x) ? code | (bits_of(x) >> 24 & 0x80u) : static_cast<unsigned>(kFp8Nan);
  }
};

}  // namespace hawser::kernels::cuda
