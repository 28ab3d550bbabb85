// The two implementations of matrix products on a GPU that the table's `matmul` chooses from (matmul.cc).
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sizes/matmul_workspace.h"
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

}  // namespace hawser::kernels::cuda
