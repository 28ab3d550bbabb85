// Records of fp8 (kE4m3Block, kE5m2Block): each stores 128 numbers in eight bits each, and a common power of
// two. Saved activations are kept in them (engine/nn/compressed_saved.h).
//
// A code is a sign, four bits of exponent and three of fraction (E4M3: bias 7, largest 448, no infinity, NaN
// 0x7f and 0xff), or five and two (E5M2: bias 15, largest 57344, infinity 0x7c, NaN 0x7d to 0x7f and with the
// sign). See Micikevicius et al., arXiv:2209.05433. The formula, for `most` = 448 or 57344:
//
//   absmax  = the largest |x| of the record
//   e       = the least integer with absmax <= most * 2^e, but at least -116 (E4M3) or -109 (E5M2)
//   code[i] = x[i] * 2^-e, rounded to the nearest number of the format, ties to even, saturating: at `most`,
//             or where the decoded number would be infinite in f32
//   y[i]    = number(code[i]) * 2^e
//
// Every y is exact in f32 and bf16: no factor, and no y except 0, is subnormal. Zeros keep their sign, and
// f32 subnormals become 0. If a number is NaN or infinite, all codes of the record are 0x7f, so that each y
// is NaN. Results have the same bits on every device (NaNs may differ in their payload).
//
// A record: the codes, then e + 127. Rows begin with a new record, so the codes of a row do not depend on how
// ranks or micro-batches divide the rows.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// One of the two formats: bits of the fraction, bias of the exponent, largest finite code, least and largest
/// e + 127, and the largest code whose number is finite in f32 with the largest e.
struct Fp8Format {
  int32_t fraction_bits, bias, largest_code, least_exponent, largest_exponent, code_at_largest;

  /// The number of the largest code is 1.75 * 2^top().
  constexpr int32_t top() const { return (largest_code >> fraction_bits) - bias; }
};
// With internal linkage, because each CPU level must have its own copies.
constexpr Fp8Format kE4m3{3, 7, 0x7e, 127 - 116, 247, 0x77};
constexpr Fp8Format kE5m2{2, 15, 0x7b, 127 - 109, 240, 0x77};
static inline constexpr Fp8Format fp8_format(DType type) { return type == DType::kE4m3Block ? kE4m3 : kE5m2; }

/// e + 127 for a maximum of these bits, with `margin` (fp8_round.h).
static inline constexpr int32_t fp8_exponent(const Fp8Format& f, uint32_t maximum_bits, int32_t margin) {
  // A fraction above 1.75 carries into the exponent.
  const int32_t least = static_cast<int32_t>((maximum_bits + 0x1fffffu) >> 23) - f.top() + margin;
  const int32_t e = least > f.least_exponent ? least : f.least_exponent;
  return e < f.largest_exponent ? e : f.largest_exponent;
}

/// The code of each number, and the exponent, of a record with a number that is not finite.
inline constexpr int32_t kFp8Nan = 0x7f, kFp8NanExponent = 0xff;

/// Encodes x[rows, n]. A last record of a row with fewer than 128 numbers is filled with zeros.
struct Fp8Encode {
  void* records = nullptr;  ///< rows * dtype_bytes(type, n) bytes
  DType type = DType::kE4m3Block;
  const void* x = nullptr;
  DType x_type = DType::kF32;  ///< f32, bf16 or, on the CPU, f16
  int64_t rows = 1, n = 0;
  /// If not null, all records have the e that fp8_round takes from this maximum and margin, so that they hold
  /// its numbers (fp8_round.h), and a number that is not finite has no effect on the others of its record.
  const float* maximum = nullptr;
  int32_t margin = 0;
};

/// Decodes y[rows, n].
struct Fp8Decode {
  void* y = nullptr;
  DType y_type =
      DType::kF32;  ///< f32, bf16 or, on the CPU, f16, to which finite numbers are rounded, saturating
  const void* records = nullptr;
  DType type = DType::kE4m3Block;
  int64_t rows = 1, n = 0;
};

}  // namespace hawser::kernels
