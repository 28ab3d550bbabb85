// MatmulWorkspace: the division of a product's workspace on a GPU.
#pragma once

#include "kernels/cuda/sizes/aligned.h"
#include "kernels/include/matmul.h"
#include "kernels/include/reduce.h"

namespace hawser::kernels::cuda {

/// The division of args.workspace: rounded operands, a rounded bias or a bias gradient to be added, then the
/// part for cuBLASLt. It depends only on sizes and types.
struct MatmulWorkspace {
  int64_t a_bytes = 0, b_bytes = 0;  ///< bytes of a bf16 copy; 0 if the operand is used as it is
  int64_t bias_bytes = 0;            ///< bytes of a bf16 copy of the bias, or of a bias gradient
  int64_t library_bytes = 0;
  int64_t bias_at() const { return a_bytes + b_bytes; }
  int64_t library_at() const { return bias_at() + bias_bytes; }
  int64_t bytes() const { return library_at() + library_bytes; }
};
MatmulWorkspace matmul_workspace(const Matmul& args);

/// Bytes of the f32 sums of a bias gradient that is narrower; 0 if it is f32 itself.
inline int64_t bias_sums_bytes(const Matmul& m) {
  return m.c_type == DType::kF32 ? 0 : aligned(m.m * dtype_bytes(DType::kF32));
}

/// Describes the column sums for a bias gradient: over the same rows as the product, and in its workspace,
/// which is free by then. The sums themselves are there if they must be rounded.
inline ColumnSum bias_sums(const Matmul& m) {
  ColumnSum s;
  const int64_t bytes = bias_sums_bytes(m);
  s.dbias = static_cast<float*>(bytes > 0 ? m.workspace : m.bias_gradient);
  s.dy = m.a;
  s.type = m.a_type;
  s.rows = m.k, s.n = m.m, s.stride = m.lda;
  s.accumulate = m.accumulate;
  s.workspace = m.workspace == nullptr ? nullptr : static_cast<char*>(m.workspace) + bytes;
  return s;
}

}  // namespace hawser::kernels::cuda
