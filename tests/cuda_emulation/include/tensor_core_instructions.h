// The instructions of kernels/cuda/ptx for g++. Each lane passes its words to the warp, and gets what the
// instruction would leave in its registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace hawser::cuda_emulation::tensor_core {

// These functions are out of line (tensor_core.cc), so that the race detector does not see what lanes pass to
// each other. No instruction orders accesses to memory.

/// Takes the row of 16 bytes that this lane has read, and gives it its words of the four matrices.
void exchange_rows(uint32_t (&words)[4], bool transposed);
/// Products are exact, and a sum adds its 16 products in ascending order of depth, each rounded to f32; the
/// order on a GPU is not documented.
void multiply_add(float (&sums)[4], const uint32_t (&left)[4], uint32_t right0, uint32_t right1);
void report_unaligned_row();

inline void load(uint32_t (&words)[4], const __nv_bfloat16* row, bool transposed) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) report_unaligned_row();
  __builtin_memcpy(words, row, sizeof(words));
  exchange_rows(words, transposed);
}
inline void load_matrices(uint32_t (&words)[4], const __nv_bfloat16* row) { load(words, row, false); }
inline void load_transposed(uint32_t (&words)[4], const __nv_bfloat16* row) { load(words, row, true); }

}  // namespace hawser::cuda_emulation::tensor_core

namespace hawser::kernels::cuda {
namespace tensor_core = cuda_emulation::tensor_core;
}  // namespace hawser::kernels::cuda
