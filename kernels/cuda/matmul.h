// The two implementations of matrix products on a GPU that the table's `matmul` chooses from (matmul.cc).
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/include/matmul.h"

namespace hawser::kernels::cuda {

/// Computes any product of the contract without epilogue and bias gradient by our own kernel. Needs no
/// workspace.
void matmul_tiled(const Matmul& args, CudaStream& stream);

/// Sets out[i, j] to bf16 of in[i * ld + j], [rows, columns], for operands of a product of bf16 values; out
/// is dense.
void round_operand(void* out, const float* in, int64_t rows, int64_t columns, int64_t ld, CudaStream& stream);

/// Fills an array of f32 or bf16 with numbers in [-1, 1), for operands of a product that is timed.
void fill_random(void* out, DType type, int64_t elements, CudaStream& stream);

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

}  // namespace hawser::kernels::cuda
