// Records of integers (kI8Block, kI4Block): 64 numbers as integers with one common factor. Gradients are sent
// in them (qgZ of ZeRO++, Wang et al., arXiv:2306.10209). The formula, in f32, each operation rounded once:
//
//   absmax  = the largest |x| of the record, rounded up to bf16, so that no code exceeds `most`
//   code[i] = x[i] * (most / absmax), rounded to the nearest integer, ties to even
//   y[i]    = code[i] * (absmax / most)
//
// with most = 127 for kI8Block and 7 for kI4Block. If a number is NaN or infinite, or absmax is infinite,
// absmax is stored as NaN and all codes as 0, so that y is NaN. If absmax is below 2^-119, absmax and codes
// are stored as 0, so that no factor is subnormal. The results are the same bits everywhere (NaNs may differ
// in their payload).
//
// A record: the codes, then absmax as bf16 (little-endian). kI8Block has one byte for each code. Byte i of
// kI4Block has code i in its low four bits, and code i + 32 in its high four, both in two's complement.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// The largest code of a type.
inline constexpr float kMostI8 = 127, kMostI4 = 7;
/// bf16 bits of 2^-119, and of the NaN that stands for numbers that are not finite.
inline constexpr unsigned kLeastAbsmax = 0x0400, kAbsmaxNan = 0x7fc0;

/// Encodes n numbers, from the first of a record on. A last record with fewer than 64 numbers is filled with
/// zeros.
struct BlockEncode {
  void* records = nullptr;  ///< dtype_bytes(type, n) bytes from an even address on
  DType type = DType::kI8Block;
  const void* x = nullptr;
  DType x_type = DType::kF32;  ///< f32 or bf16
  int64_t n = 0;
};

/// Decodes the first n numbers of records.
struct BlockDecode {
  void* y = nullptr;
  DType y_type = DType::kF32;     ///< f32, or bf16, to which the f32 value is rounded
  const void* records = nullptr;  ///< from an even address on
  DType type = DType::kI8Block;
  int64_t n = 0;
};

}  // namespace hawser::kernels
