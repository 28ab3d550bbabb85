// Tensor cores: products of small bf16 matrices that the lanes of a warp hold together, with f32 sums. The
// instructions and their fragments are those of the PTX ISA 8.0 ("ldmatrix", and "Matrix fragments for
// mma.m16n8k16 with floating point type"). Every GPU from sm_80 on has them. All 32 lanes must call each
// function.
//
// Lane l of a warp has, with g = l / 4 and t = l % 4:
//   Left   [16 rows, 16 depths]    words 0 to 3: rows g, g + 8, g, g + 8; depths 2t, 2t, 2t + 8, 2t + 8, each
//                                  with the depth after it
//   Right  [16 depths, 8 columns]  words 0 and 1: column g, depths 2t and 2t + 8, each with the one after it
//   Sums   [16 rows, 8 columns]    0 and 1: row g, columns 2t and 2t + 1; 2 and 3: the same of row g + 8
#pragma once

#include "kernels/cuda/packed.h"
#ifndef __CUDACC__
#include <emulated_tensor_core.h>  // of tests/cuda_emulation/include
#endif

namespace hawser::kernels::cuda {

/// The instructions; a word holds two bf16 values, the first in its lower half.
#ifdef __CUDACC__
namespace tensor_core {

/// Loads four 8 x 8 matrices. Lane l gives the address of row l % 8 of matrix l / 8, at a multiple of 16
/// bytes of shared memory. In words[i] it gets elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of matrix i.
__device__ __forceinline__ void load_matrices(uint32_t (&words)[4], const bf16* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

/// The same for the transposed matrices: words[i] has elements l / 4 of rows 2 (l % 4) and 2 (l % 4) + 1.
__device__ __forceinline__ void load_transposed(uint32_t (&words)[4], const bf16* row) {
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

}  // namespace tensor_core
#else
namespace tensor_core = cuda_emulation::tensor_core;
#endif

/// How a matrix of an operand lies in shared memory: depths (over which products are summed) or lines (rows
/// of a left operand, columns of a right one) follow one another.
enum class Inner { kDepth, kLine };

/// 16 lines and 16 depths of an operand: a Left, or two Rights of eight columns each.
struct Fragment {
  uint32_t word[4];
};

/// Loads the left operand with lines line.. and depths depth.. of `tile`, whose stored rows are `stride`
/// elements apart, a multiple of 8.
template <Inner kInner>
__device__ __forceinline__ Fragment load_left(const bf16* tile, int stride, int line, int depth) {
  const int l = static_cast<int>(threadIdx.x) % 32, in_matrix = l % 8, odd = l / 8 % 2 * 8,
            upper = l / 16 * 8;
  Fragment fragment;
  if constexpr (kInner == Inner::kDepth) {
    tensor_core::load_matrices(fragment.word, tile + (line + odd + in_matrix) * stride + depth + upper);
  } else {
    tensor_core::load_transposed(fragment.word, tile + (depth + upper + in_matrix) * stride + line + odd);
  }
  return fragment;
}

/// Loads the right operands with columns line.. (words 0 and 1) and line + 8.. (words 2 and 3).
template <Inner kInner>
__device__ __forceinline__ Fragment load_right(const bf16* tile, int stride, int line, int depth) {
  const int l = static_cast<int>(threadIdx.x) % 32, in_matrix = l % 8, odd = l / 8 % 2 * 8,
            upper = l / 16 * 8;
  Fragment fragment;
  if constexpr (kInner == Inner::kDepth) {
    tensor_core::load_matrices(fragment.word, tile + (line + upper + in_matrix) * stride + depth + odd);
  } else {
    tensor_core::load_transposed(fragment.word, tile + (depth + odd + in_matrix) * stride + line + upper);
  }
  return fragment;
}

/// Adds left * right to 16 rows and 16 columns of sums.
__device__ __forceinline__ void multiply_add(float (&sums)[2][4], const Fragment& left,
                                             const Fragment& right) {
  tensor_core::multiply_add(sums[0], left.word, right.word[0], right.word[1]);
  tensor_core::multiply_add(sums[1], left.word, right.word[2], right.word[3]);
}

}  // namespace hawser::kernels::cuda
