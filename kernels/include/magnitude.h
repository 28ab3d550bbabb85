// Magnitudes of an adapter's rows (DoRA, Liu et al., arXiv:2402.09353): norms of a weight's rows, and the
// factors that they give columns of activations.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// squares[r] = sum over i < n of v v, v = w[r, i] + scale ba[r, i] in f32, not fused. The products are exact
/// in fp64, in which they are added: elements i, i + kSquareLanes, ... in turn, then the halves of these
/// sums, down to one sum, which is rounded to f32. All backends thus have the same bits. w and ba are dense.
inline constexpr int kSquareLanes = 32;
struct RowSquares {
  float* squares = nullptr;
  const void* w = nullptr;
  const float* ba = nullptr;
  DType type = DType::kF32;  ///< type of w, f32 or bf16
  float scale = 1;
  int64_t rows = 0, n = 0;
};

/// For each column, its magnitude m and the norm n = sqrt(squares) in f32, rounded to m's type. Its factor is
/// m / n, or 1 if n is 0.
struct Magnitudes {
  const void* m = nullptr;
  DType type = DType::kF32;  ///< type of m, f32 or bf16
  const float* squares = nullptr;
};

/// y[r, j] = f x[r, j] + (1 - f) bias[j], f = factor of column j, in f32, rounded once. bias may be null. x
/// is f32, or has y's type. y may be x if their types and strides are equal.
struct ScaleColumns {
  void* y = nullptr;
  const void* x = nullptr;
  DType y_type = DType::kF32, x_type = DType::kF32;  ///< f32 or bf16
  Magnitudes by;
  const float* bias = nullptr;
  int64_t rows = 0, n = 0, y_stride = 0, x_stride = 0;
};

/// dm[j] (+)= (sum over r of dy[r, j] z[r, j]) / n[j], as f32 sums in an order that only sizes determine; 0
/// if n is 0.
struct ColumnDot {
  float* dm = nullptr;
  const void* dy = nullptr;
  DType dy_type = DType::kF32;  ///< f32 or bf16
  const float* z = nullptr;
  Magnitudes by;  ///< the values of m are not read
  int64_t rows = 0, n = 0, dy_stride = 0, z_stride = 0;
  bool accumulate = false;
};

}  // namespace hawser::kernels
