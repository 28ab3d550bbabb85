// The residual stream x + dropout(branch), and its backward.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"
#include "kernels/include/dropout.h"

namespace hawser::kernels {

/// y[r,:] = x[r,:] + dropout(branch[r,:]), computed in f32. x, y are [rows,d] of `type`, f32 or bf16 (y may
/// be x); branch has branch_type or is null (then y = dropout(x), the dropout of the embedding). Row r
/// belongs to dropout_row(dropout, seq, r).
struct ResidualForward {
  void* y = nullptr;
  const void* x = nullptr;
  const void* branch = nullptr;
  DType type = DType::kF32, branch_type = DType::kF32;
  int64_t rows = 0, d = 0, seq = 1;
  Dropout dropout;
};

/// dbranch[r,:] = dropout'(dy[r,:]), rounded to branch_type; dbranch may be dy itself if branch_type is f32.
struct ResidualBackward {
  void* dbranch = nullptr;
  const float* dy = nullptr;
  DType branch_type = DType::kF32;
  int64_t rows = 0, d = 0, seq = 1;
  Dropout dropout;
};

}  // namespace hawser::kernels
