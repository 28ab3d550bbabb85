// Operands of products under precision fp8 (engine/nn/fp8_operands.h): a tensor's largest magnitude, and its
// numbers rounded to E4M3 or E5M2 with one power of two for the tensor (formats: fp8_records.h).
//
//   e    = the least integer with maximum <= most * 2^e, plus `margin`, but at least -116 (E4M3), -109 (E5M2)
//          and at most 120 (E4M3) or 113 (E5M2); most = 448 or 57344
//   y[i] = x[i] * 2^-e, rounded to the nearest number of the format, ties to even, saturating as in a record;
//          times 2^e
//
// Instead of the tensor, each tile of it may have a maximum and an e of its own (Fp8Tile; 1 x 128 and 128 x
// 128 as in DeepSeek-V3, arXiv:2412.19437, section 3.3.2). With margin 0, no number then saturates.
//
// Every y is a bf16 number, so products of bf16 numbers multiply y exactly. A number above the maximum
// saturates (a maximum of earlier steps may be too small). A number that is NaN or infinite becomes NaN
// and does not count for the maximum, so an overflow stays visible and spoils no other number.
#pragma once

#include "kernels/include/fp8_records.h"

namespace hawser::kernels {

/// *maximum = the largest finite |x[i]|; 0 if there is none. A maximum has no order, so its bits depend
/// neither on the thread count nor on how rows are divided into calls that accumulate.
struct Fp8Maximum {
  float* maximum = nullptr;
  const void* x = nullptr;
  DType x_type = DType::kF32;  ///< f32, bf16 or, on the CPU, f16
  int64_t rows = 1, n = 0;
  int64_t stride = 0;       ///< elements between rows
  bool accumulate = false;  ///< include the present value of *maximum
  /// If not null, only rows below *end count; read when the kernel runs.
  const int32_t* end = nullptr;
};

/// The numbers of a tensor that share a power of two. The last tiles of a row, of a column and of a group of
/// rows may be smaller.
enum class Fp8Tile : uint8_t {
  kTensor,   ///< all numbers; the maximum is an argument
  k1x128,    ///< 128 numbers of a row
  k128x1,    ///< 128 numbers of a column
  k128x128,  ///< 128 numbers of each of 128 rows
};

/// y[rows, n] = the numbers of fp8 nearest to x[rows, n]. y may be x if both are bf16 with equal strides.
struct Fp8Round {
  uint16_t* y = nullptr;  ///< bf16
  const void* x = nullptr;
  DType x_type = DType::kF32;  ///< f32, bf16 or, on the CPU, f16
  DType type = DType::kE4m3Block;
  int64_t rows = 1, n = 0;
  int64_t y_stride = 0, x_stride = 0;
  const float* maximum = nullptr;  ///< of kTensor: finite, not negative; read when the kernel runs
  int32_t margin = 0;              ///< 0 or more
  const int32_t* end = nullptr;    ///< as in Fp8Maximum; the other rows of y keep their values
  Fp8Tile tile = Fp8Tile::kTensor;
  /// A tile with several rows begins with the first row of a group, or after the tile above it. Group i has
  /// the rows from offsets[i] to offsets[i + 1], which are read when the kernel runs; `end` must then be
  /// &offsets[groups]. If `offsets` is null, each group has rows / groups rows.
  const int32_t* offsets = nullptr;
  int64_t groups = 1;
};

}  // namespace hawser::kernels
