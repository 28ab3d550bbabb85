// Sums over rows, sums of squares, additions and conversions.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/exact_sum.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// dbias[j] (+)= sum over r of dy[r * stride + j], as f32 sums in ascending r within fixed blocks of rows,
/// blocks in ascending order. dy is f32 or bf16. workspace: column_sum_workspace_bytes(args).
///
/// A caller may pass the rows in parts, with one call for each part. Calls after the first accumulate.
/// `first` is the number of rows in earlier parts, `ends` is true for the last part only, and `open`, f32
/// [n], carries the sum of a block of rows that a part does not finish. On the CPU, all parts together have
/// the bits of one call; other backends do not read these fields.
struct ColumnSum {
  float* dbias = nullptr;
  const void* dy = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, n = 0, stride = 0;
  bool accumulate = false;
  void* workspace = nullptr;
  float* open = nullptr;  ///< not read if one part has all rows
  int64_t first = 0;
  bool ends = true;
};

/// Number of elements whose squares SumOfSquares adds in fp64 before it adds them to the exact sum. It equals
/// the alignment of flat shards (engine/mesh/flat_shard.h), so that sharding moves no element to another
/// block.
inline constexpr int64_t kNormBlock = 64;

/// Number of accumulators of SumOfSquares: the maximum number of tasks into which it divides g.
inline constexpr int64_t kNormTasks = 64;

/// sum += the squares of g: f32 or bf16 [n]. Squares are exact in fp64. The kNormBlock squares of each block,
/// counted from g, are added in fp64 in one order (i and i + 16 first, then halves of the sixteen), and the
/// blocks' sums exactly. So sum->value() has the same bits on every level, for any number of workers, and for
/// any division of g into calls, shards or ranks at multiples of kNormBlock. workspace: ExactSum
/// [kNormTasks], uninitialised.
struct SumOfSquares {
  ExactSum* sum = nullptr;
  const void* g = nullptr;
  int64_t n = 0;
  ExactSum* workspace = nullptr;
  DType type = DType::kF32;
};

/// y[i] = a[i] + b[i], f32; y may be a or b. Adds the two gradients of a tied embedding.
struct Add {
  float* y = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t n = 0;
};

/// y = x converted (round to nearest even; NaN stays NaN). Types in {f32, bf16, f16} both ways. `rows` rows
/// of n elements, strides apart; they may overlap only if types and addresses are equal. Only from f32 to f32
/// or bf16: accumulate: y + x, added in f32 and rounded once. scale: multiplies x.
struct Convert {
  void* y = nullptr;
  const void* x = nullptr;
  DType y_type = DType::kF32, x_type = DType::kF32;
  int64_t n = 0;
  bool accumulate = false;
  int64_t rows = 1, y_stride = 0, x_stride = 0;  ///< elements between rows; not read for one row
  float scale = 1;
};

}  // namespace hawser::kernels
