// ExactSum: a sum of doubles that rounds only once, at the end, so neither the order nor the grouping of the
// additions nor the number of ranks changes a bit of it. It is a fixed-point number over the whole range of
// double (a Kulisch accumulator). Every double is a multiple of 2^-1074 below 2^1024, so adding one takes
// integer additions to at most three limbs. The limbs leave room for late carries, as in Neal, "Fast exact
// summation using small and large superaccumulators", 2015. The header includes no C++ library header,
// because kernels of CPU levels use it.
#pragma once

#include <stdint.h>

namespace hawser {

/// Zeroed memory is an empty sum. It is not thread-safe: each thread adds to its own sum, then the sums are
/// merged.
///
/// Adding the words of two sums gives the words of their joint sum. Ranks therefore combine their sums by an
/// integer all-reduce (sum of int64) over kWords words, after normalise(). There is room for 2^31 ranks.
struct ExactSum {
  static constexpr int kLimbBits = 32;
  static constexpr int kLimbs = 66;
  // The words after the limbs count each non-finite value, and the additions since the last carry.
  static constexpr int kNan = kLimbs, kPlusInfinity = kLimbs + 1, kMinusInfinity = kLimbs + 2;
  static constexpr int kAdds = kLimbs + 3;
  static constexpr int kWords = kLimbs + 4;
  /// Each addition changes a limb by less than 2^32, so this many fit in an int64.
  static constexpr int64_t kMaxAdds = (int64_t{1} << 31) - 1;

  /// words[i], i < kLimbs, counts units of 2^(32 i - 1074). The last limb is never carried over: it has room
  /// for 2^44 additions of the largest double.
  int64_t words[kWords] = {};

  /// Adds x, exactly.
  void add(double x);

  /// Adds the sum of `other`.
  void merge(const ExactSum& other);

  /// Propagates carries, so that every limb but the last is in [0, 2^32). Afterwards equal sums have equal
  /// words.
  void normalise();

  /// The sum, rounded once to nearest even; infinity beyond the largest double. A NaN, or infinities of both
  /// signs, give NaN; infinities of one sign give that infinity. A zero sum is +0.
  double value() const;
};

/// Adds x to words without counting it. The caller makes at most kMaxAdds additions between two carries, and
/// adds their number to words[ExactSum::kAdds] afterwards.
static constexpr inline void exact_sum_add(int64_t* words, double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t exponent = (bits >> 52) & 0x7ff, fraction = bits & 0xfffffffffffffull;
  if (__builtin_expect(exponent == 0x7ff, 0)) {
    const int infinity = (bits >> 63) != 0 ? ExactSum::kMinusInfinity : ExactSum::kPlusInfinity;
    ++words[fraction != 0 ? ExactSum::kNan : infinity];
    return;
  }
  // x = +-mantissa * 2^(shift - 1074); subnormals share the exponent of the smallest normal.
  const uint64_t normal = exponent != 0 ? 1 : 0;
  const uint64_t mantissa = fraction | (normal << 52), shift = exponent - normal;
  const uint64_t within = shift % ExactSum::kLimbBits;
  const uint64_t low = mantissa << within, high = (mantissa >> 1) >> (63 - within);
  const int64_t sign = -static_cast<int64_t>(bits >> 63);  // 0 or -1; (v ^ sign) - sign is +-v
  int64_t* limb = words + shift / ExactSum::kLimbBits;
  limb[0] += (static_cast<int64_t>(low & 0xffffffffu) ^ sign) - sign;
  limb[1] += (static_cast<int64_t>(low >> 32) ^ sign) - sign;
  limb[2] += (static_cast<int64_t>(high) ^ sign) - sign;
}

}  // namespace hawser
