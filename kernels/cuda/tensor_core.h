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
#include "tensor_core_instructions.h"  // of ptx/, or of the emulator

namespace hawser::kernels::cuda {

/// How a matrix of an operand lies in shared memory: depths (over which products are summed) or lines (rows
/// of a left operand, columns of a right one) follow one another.
enum class Inner { kDepth, kLine };

/// 16 lines and 16 depths of an operand: a Left, or two Rights of eight columns each.
struct Fragment {
  uint32_t word[4];
};

/// Loads four 8 x 8 matrices of an operand. This lane gives the address of a row of the matrix with lines
/// line.. and depths depth.. of `tile`, whose stored rows are `stride` elements apart, a multiple of 8.
template <Inner kInner>
__device__ __forceinline__ Fragment load_matrices(const bf16* tile, int stride, int line, int depth) {
  const int row = static_cast<int>(threadIdx.x) % 8;
  Fragment fragment;
  if constexpr (kInner == Inner::kDepth) {
    tensor_core::load_matrices(fragment.word, tile + (line + row) * stride + depth);
  } else {
    tensor_core::load_transposed(fragment.word, tile + (depth + row) * stride + line);
  }
  return fragment;
}

/// Loads the left operand with lines line.. and depths depth.. of `tile`.
template <Inner kInner>
__device__ __forceinline__ Fragment load_left(const bf16* tile, int stride, int line, int depth) {
  const int matrix = static_cast<int>(threadIdx.x) / 8 % 4;
  return load_matrices<kInner>(tile, stride, line + matrix % 2 * 8, depth + matrix / 2 * 8);
}

/// Loads the right operands with columns line.. (words 0 and 1) and line + 8.. (words 2 and 3).
template <Inner kInner>
__device__ __forceinline__ Fragment load_right(const bf16* tile, int stride, int line, int depth) {
  const int matrix = static_cast<int>(threadIdx.x) / 8 % 4;
  return load_matrices<kInner>(tile, stride, line + matrix / 2 * 8, depth + matrix % 2 * 8);
}

/// Adds left * right to 16 rows and 16 columns of sums.
__device__ __forceinline__ void multiply_add(float (&sums)[2][4], const Fragment& left,
                                             const Fragment& right) {
  tensor_core::multiply_add(sums[0], left.word, right.word[0], right.word[1]);
  tensor_core::multiply_add(sums[1], left.word, right.word[2], right.word[3]);
}

}  // namespace hawser::kernels::cuda
