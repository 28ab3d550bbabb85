// Products of many experts in one call; each multiplies its own rows by its own matrix.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"
#include "kernels/include/matmul.h"

namespace hawser::kernels {

/// Group g has rows offsets[g] to offsets[g + 1] of [rows, ...] operands.
///   sums_rows:     c[g][k, n] (+)= a[its rows, k]^T b[its rows, n]; c[g] is dense; zero without rows, unless
///                  accumulated.
///   otherwise:     c[its rows, n] = a[its rows, k] op(b[g]); b[g] is dense [k, n], or [n, k] if
///                  b_transposed.
/// ld* are elements between rows of the [rows, ...] operands. Sums, types and rounding are those of Matmul,
/// and a group's result is that of a separate Matmul. `rows` is the maximum of offsets[groups]; later rows
/// are not written.
struct GroupedMatmul {
  void* c = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  const int32_t* offsets = nullptr;
  DType c_type = DType::kF32, a_type = DType::kF32, b_type = DType::kF32;
  int64_t ldc = 0, lda = 0, ldb = 0;
  int64_t groups = 0, rows = 0, n = 0, k = 0;
  bool b_transposed = false, sums_rows = false, accumulate = false;
  DType round_to = DType::kF32;
  void* workspace = nullptr;  ///< grouped_matmul_workspace_bytes(args), 64-byte aligned
};

}  // namespace hawser::kernels
