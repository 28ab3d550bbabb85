// ExactSum: propagates carries, and rounds the sum once, at the end.
#include "engine/base/exact_sum.h"

#include <bit>
#include <limits>

namespace hawser {
namespace {

constexpr int kMantissaBits = 53;

/// The magnitude of a normalised sum in plain binary. The last limb fills two words.
struct Digits {
  uint32_t digit[ExactSum::kLimbs + 1];
  bool negative;

  bool bit(int i) const { return ((digit[i / 32] >> (i % 32)) & 1u) != 0; }

  /// Index of the highest bit that is set; -1 for zero.
  int highest() const {
    for (int i = ExactSum::kLimbs; i >= 0; --i) {
      if (digit[i] != 0) return 32 * i + 31 - std::countl_zero(digit[i]);
    }
    return -1;
  }

  bool any_below(int end) const {
    for (int i = 0; i < end / 32; ++i) {
      if (digit[i] != 0) return true;
    }
    return end % 32 != 0 && (digit[end / 32] << (32 - end % 32)) != 0;
  }
};

Digits digits_of(const ExactSum& sum) {
  const uint64_t last = static_cast<uint64_t>(sum.words[ExactSum::kLimbs - 1]);
  Digits d;
  d.negative = (last >> 63) != 0;
  for (int i = 0; i < ExactSum::kLimbs; ++i) d.digit[i] = static_cast<uint32_t>(sum.words[i]);
  d.digit[ExactSum::kLimbs] = static_cast<uint32_t>(last >> 32);
  if (!d.negative) return d;
  uint64_t carry = 1;  // two's complement
  for (uint32_t& digit : d.digit) {
    carry += static_cast<uint32_t>(~digit);
    digit = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  return d;
}

/// The nearest double, ties to even. Digits count from 2^-1074, so a number of up to 53 digits is its own bit
/// pattern (subnormals and the lowest binade), and each digit cut off adds one to the exponent. A carry from
/// rounding moves into the exponent by itself.
double rounded(const Digits& d) {
  const int highest = d.highest();
  const int cut = highest >= kMantissaBits ? highest - (kMantissaBits - 1) : 0;
  uint64_t mantissa = 0;
  for (int i = highest; i >= cut; --i) mantissa = mantissa << 1 | (d.bit(i) ? 1u : 0u);
  if (cut > 0 && d.bit(cut - 1) && ((mantissa & 1) != 0 || d.any_below(cut - 1))) ++mantissa;
  constexpr uint64_t kInfinity = 0x7ff0000000000000ull;
  uint64_t bits = (static_cast<uint64_t>(cut) << 52) + mantissa;
  if (bits > kInfinity) bits = kInfinity;
  return std::bit_cast<double>(bits | (d.negative ? uint64_t{1} << 63 : 0));
}

}  // namespace

void ExactSum::add(double x) {
  if (words[kAdds] >= kMaxAdds) normalise();
  exact_sum_add(words, x);
  ++words[kAdds];
}

void ExactSum::merge(const ExactSum& other) {
  if (words[kAdds] + other.words[kAdds] > kMaxAdds) {
    normalise();
    ExactSum carried = other;
    carried.normalise();
    for (int i = 0; i < kWords; ++i) words[i] += carried.words[i];
    return;
  }
  for (int i = 0; i < kWords; ++i) words[i] += other.words[i];
}

void ExactSum::normalise() {
  int64_t carry = 0;
  for (int i = 0; i < kLimbs - 1; ++i) {
    const int64_t limb = words[i] + carry;
    carry = limb >> kLimbBits;  // rounds down, so the rest is not negative
    words[i] = limb & 0xffffffff;
  }
  words[kLimbs - 1] += carry;
  words[kAdds] = 1;  // the limbs now hold what one addition could have produced
}

double ExactSum::value() const {
  const bool plus = words[kPlusInfinity] != 0, minus = words[kMinusInfinity] != 0;
  if (words[kNan] != 0 || (plus && minus)) return std::numeric_limits<double>::quiet_NaN();
  if (plus) return std::numeric_limits<double>::infinity();
  if (minus) return -std::numeric_limits<double>::infinity();
  ExactSum carried = *this;
  carried.normalise();
  return rounded(digits_of(carried));
}

}  // namespace hawser
