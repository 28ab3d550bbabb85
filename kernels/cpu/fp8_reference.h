// Reference for numbers of fp8: the formulas of a record and of a tensor's rounding, number by number, in
// f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/include/fp8_round.h"

namespace hawser::kernels {

/// Returns the number of a code, by the definition of the format.
inline double fp8_number(const Fp8Format& f, int code) {
  const int m = code & 0x7f, exponent = m >> f.fraction_bits, fraction = m & ((1 << f.fraction_bits) - 1);
  const double sign = code & 0x80 ? -1.0 : 1.0;
  if (m > f.largest_code) {
    const bool infinite = f.fraction_bits == 2 && fraction == 0;
    return sign *
           (infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN());
  }
  const int hidden = exponent == 0 ? 0 : 1 << f.fraction_bits;
  return sign * std::ldexp(hidden + fraction, std::max(exponent, 1) - f.bias - f.fraction_bits);
}

/// Returns the nearest code of a finite number, ties to the even one, saturating at `largest`.
inline int fp8_code(const Fp8Format& f, double x, int largest) {
  const double magnitude = std::abs(x);
  int code = 0;
  while (code < largest && fp8_number(f, code + 1) <= magnitude) ++code;
  if (code < largest) {
    const double below = magnitude - fp8_number(f, code), above = fp8_number(f, code + 1) - magnitude;
    if (above < below || (above == below && code % 2 != 0)) ++code;
  }
  return code | (std::signbit(x) ? 0x80 : 0);
}

/// Returns the bytes of a record of up to 128 numbers.
inline std::vector<uint8_t> fp8_record(const Fp8Format& f, const std::vector<float>& x) {
  std::vector<uint8_t> bytes(static_cast<size_t>(kFp8Record), 0);
  double absmax = 0;
  for (const float v : x) {
    if (!std::isfinite(v)) {
      std::fill(bytes.begin(), bytes.end() - 1, static_cast<uint8_t>(kFp8Nan));
      bytes.back() = kFp8NanExponent;
      return bytes;
    }
    absmax = std::max(absmax, std::abs(static_cast<double>(v)));
  }
  int e = f.least_exponent - 127;
  while (absmax > std::ldexp(fp8_number(f, f.largest_code), e)) ++e;
  int largest = f.largest_code;
  while (std::ldexp(fp8_number(f, largest), e) > static_cast<double>(std::numeric_limits<float>::max()))
    --largest;
  for (size_t i = 0; i < x.size(); ++i)
    bytes[i] = static_cast<uint8_t>(fp8_code(f, std::ldexp(static_cast<double>(x[i]), -e), largest));
  bytes.back() = static_cast<uint8_t>(e + 127);
  return bytes;
}

/// Returns the largest finite magnitude.
inline double fp8_maximum_of(const std::vector<double>& x) {
  double most = 0;
  for (const double v : x)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

/// Returns the number of the format nearest to x, with the power of two of a tensor whose maximum this is.
inline double fp8_rounded(const Fp8Format& f, double x, double maximum, int margin) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  int e = f.least_exponent - 127;
  while (maximum > std::ldexp(fp8_number(f, f.largest_code), e - margin) && e < f.largest_exponent - 127) ++e;
  const int largest = e == f.largest_exponent - 127 ? f.code_at_largest : f.largest_code;
  return std::ldexp(fp8_number(f, fp8_code(f, std::ldexp(x, -e), largest)), e);
}

/// Returns the number i of a record.
inline double fp8_decoded(const Fp8Format& f, const uint8_t* record, int64_t i) {
  return std::ldexp(fp8_number(f, record[i]), record[kFp8Block] - 127);
}

}  // namespace hawser::kernels
