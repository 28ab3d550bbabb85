// Sums over rows and over everything.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// dbias[j] (+)= sum over r of dy[r * stride + j], f32 sums in ascending r within fixed row blocks, blocks in
/// ascending order. dy f32 or bf16. workspace: column_sum_workspace_bytes(args).
struct ColumnSum {
  float* dbias = nullptr;
  const void* dy = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0, n = 0, stride = 0;
  bool accumulate = false;
  void* workspace = nullptr;
};

/// Elements in one block of SumOfSquares.
inline constexpr int64_t kNormBlock = 4096;

/// partial[i] = sum of squares, in fp64, of elements [i * kNormBlock, ...) of g: f32 [n]. ceil(n /
/// kNormBlock) partials; blocks are counted in the parameter's own elements, so the sum in block order does
/// not depend on how the parameter is laid out.
struct SumOfSquares {
  double* partial = nullptr;
  const float* g = nullptr;
  int64_t n = 0;
};

/// y[i] = a[i] + b[i], f32; y may be a or b. Joins the two gradients of a tied embedding.
struct Add {
  float* y = nullptr;
  const float* a = nullptr;
  const float* b = nullptr;
  int64_t n = 0;
};

/// y = x converted (round to nearest even; NaN stays NaN). Types in {f32, bf16, f16} both ways. n elements;
/// no overlap unless the types are equal and the addresses too.
struct Convert {
  void* y = nullptr;
  const void* x = nullptr;
  DType y_type = DType::kF32, x_type = DType::kF32;
  int64_t n = 0;
};

}  // namespace hawser::kernels
