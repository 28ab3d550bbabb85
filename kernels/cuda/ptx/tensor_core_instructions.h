// The instructions of tensor cores in PTX. A word holds two bf16 values, the first in its lower half. The
// emulator has a header of the same name (tests/cuda_emulation/include).
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace hawser::kernels::cuda::tensor_core {

/// Loads four 8 x 8 matrices. Lane l gives the address of row l % 8 of matrix l / 8, at a multiple of 16
/// bytes of shared memory. In words[i] it gets elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix i.
__device__ __forceinline__ void load_matrices(uint32_t (&words)[4], const __nv_bfloat16* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/// The same for the transposed matrices: words[i] has elements l / 4 of rows 2 (l % 4) and 2 (l % 4) + 1.
__device__ __forceinline__ void load_transposed(uint32_t (&words)[4], const __nv_bfloat16* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/// sums += left * right
__device__ __forceinline__ void multiply_add(float (&sums)[4], const uint32_t (&left)[4], uint32_t right0,
                                             uint32_t right1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

}  // namespace hawser::kernels::cuda::tensor_core
