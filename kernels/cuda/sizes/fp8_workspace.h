// Fp8Workspace: the division of the workspace of a product whose operands are rounded to fp8 on a GPU.
#pragma once

#include "kernels/cuda/sizes/aligned.h"
#include "kernels/cuda/sizes/matmul_workspace.h"

namespace hawser::kernels::cuda {

/// The powers of two of all parts, both operands as codes or as bf16 numbers, sums in f32 if the parts'
/// products are added and the result is narrower, then the workspace of a product of them. It depends only
/// on sizes and types.
struct Fp8Workspace {
  int64_t a_bytes = 0, b_bytes = 0, sums_bytes = 0, product_bytes = 0;
  static constexpr int64_t a_at() { return aligned(2 * Fp8Factor::kMost * sizeof(float)); }
  int64_t b_at() const { return a_at() + a_bytes; }
  int64_t sums_at() const { return b_at() + b_bytes; }
  int64_t product_at() const { return sums_at() + sums_bytes; }
  int64_t bytes() const { return product_at() + product_bytes; }
};

/// True if the products of parts are added, because parts divide k.
inline bool adds_parts(const Matmul& m) {
  return m.a_fp8.parts > 1 ? !m.a_transposed : m.b_fp8.parts > 1 && !m.b_transposed;
}

inline Fp8Workspace fp8_workspace(const Matmul& args) {
  Matmul rounded = args;
  rounded.a_fp8 = rounded.b_fp8 = {};
  rounded.a_type = rounded.b_type = DType::kBf16;
  const int64_t bf16_bytes = dtype_bytes(DType::kBf16);
  const bool adds = adds_parts(args) && args.c_type != DType::kF32;
  return {aligned(args.m * args.k * bf16_bytes), aligned(args.k * args.n * bf16_bytes),
          adds ? aligned(args.m * args.n * dtype_bytes(DType::kF32)) : 0, matmul_workspace(rounded).bytes()};
}

}  // namespace hawser::kernels::cuda
