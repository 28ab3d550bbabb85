// The parts that the attention kernels on tensor cores share. A block of four warps has 64 rows, queries or
// keys, 16 to a warp, and visits tiles of rows of the other kind. Heads lie in shared memory in bf16. A warp
// keeps its scores and results in registers, in the fragments of tensor_core.h: the scores that a product
// leaves in a lane are the weights that the next product needs there.
#pragma once

#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/tensor_core.h"

namespace hawser::kernels::cuda {

constexpr int kWarpRows = 16, kOwnRows = 64, kTensorAttentionThreads = kOwnRows / kWarpRows * kWarpLanes;

/// kRows rows of a head of up to kHead elements. After each row there are 16 bytes more, so that the eight
/// rows of a matrix that load_left and load_right read lie in different banks.
template <int kRows, int kHead>
struct alignas(16) NarrowHeads {
  static constexpr int kStride = kHead + 8;
  bf16 element[kRows * kStride];
};

/// Loads rows first.. of a head of `size` elements; p is the address of row `first`, and rows are `stride`
/// elements apart. Rows outside of `valid` are not read and become zero, as do elements from `size` on. All
/// threads must call it; the caller adds barriers.
template <int kRows, int kHead, class T>
__device__ __forceinline__ void load_heads(NarrowHeads<kRows, kHead>& tile, const T* p, int64_t stride,
                                           int64_t first, Rows valid, int64_t size, bool wide) {
  constexpr int kChunks = kHead / kWide;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kTensorAttentionThreads) {
    const int row = i / kChunks, start = i % kChunks * kWide;
    const int64_t count = first + row >= valid.begin && first + row < valid.end ? size - start : 0;
    float x[kWide];
    load_some(x, p + row * stride + start, count, wide);
    store<kWide>(tile.element + row * tile.kStride + start, x);
  }
}

/// This thread's rows among those of its block are own_row(0) and own_row(1).
__device__ __forceinline__ int own_row(int r) {
  return warp_of_thread() * kWarpRows + lane_of_thread() / 4 + 8 * r;
}

/// True if the warp has a row, for a block whose first row is `first` of `rows`. Other warps only load tiles.
__device__ __forceinline__ bool warp_has_rows(int64_t first, int64_t rows) {
  return first + warp_of_thread() * kWarpRows < rows;
}

/// f32 numbers for the 16 rows of a warp and kColumns columns.
template <int kColumns>
struct WarpSums {
  float sum[kColumns / 16][2][4] = {};

  /// Adds the products of the warp's rows of `own` with the rows of `other`, over the first `width` elements.
  template <int kHead>
  __device__ __forceinline__ void add_scores(const NarrowHeads<kOwnRows, kHead>& own,
                                             const NarrowHeads<kColumns, kHead>& other, int width) {
    for (int element = 0; element < width; element += 16) {
      const Fragment rows =
          load_left<Inner::kDepth>(own.element, own.kStride, warp_of_thread() * kWarpRows, element);
#pragma unroll
      for (int c = 0; c < kColumns / 16; ++c)
        multiply_add(sum[c], rows, load_right<Inner::kDepth>(other.element, other.kStride, c * 16, element));
    }
  }

  /// Adds weights, rounded to bf16, times columns first.. of `values`.
  template <int kOther, int kHead>
  __device__ __forceinline__ void add_products(const WarpSums<kOther>& weights,
                                               const NarrowHeads<kOther, kHead>& values, int first = 0) {
#pragma unroll
    for (int j = 0; j < kOther / 16; ++j) {
      const Fragment rows = weights.as_left(j);
#pragma unroll
      for (int c = 0; c < kColumns / 16; ++c)
        multiply_add(sum[c], rows,
                     load_right<Inner::kLine>(values.element, values.kStride, first + c * 16, j * 16));
    }
  }

  /// Columns 16 j and on as a left operand.
  __device__ __forceinline__ Fragment as_left(int j) const {
    Fragment left;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = sum[j][i / 2] + i % 2 * 2;
      const Packed<bf16, 2> packed = {{from_float<bf16>(pair[0]), from_float<bf16>(pair[1])}};
      left.word[i] = __builtin_bit_cast(uint32_t, packed);
    }
    return left;
  }

  /// Calls body(column, x, y) for this thread's numbers of own_row(r) and those of `other` at the same
  /// places.
  template <class Body>
  __device__ __forceinline__ void with_row(WarpSums& other, int r, const Body& body) {
#pragma unroll
    for (int c = 0; c < kColumns / 8; ++c) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int place = 2 * r + i;
        body(c * 8 + lane_of_thread() % 4 * 2 + i, sum[c / 2][c % 2][place], other.sum[c / 2][c % 2][place]);
      }
    }
  }

  /// Calls body(column, x) for this thread's numbers of own_row(r).
  template <class Body>
  __device__ __forceinline__ void for_row(int r, const Body& body) {
    with_row(*this, r, [&body](int column, float& x, float&) { body(column, x); });
  }
};

/// Writes a row's numbers of columns below `size`: to[column] = x * factor.
template <class T, int kColumns>
__device__ __forceinline__ void store_columns(T* to, WarpSums<kColumns>& sums, int r, int64_t size,
                                              float factor) {
  sums.for_row(r, [&](int column, float x) {
    if (column < size) to[column] = from_float<T>(x * factor);
  });
}

template <class T, int kColumns>
__device__ __forceinline__ void clear_columns(T* to, WarpSums<kColumns>& sums, int r, int64_t size) {
  sums.for_row(r, [&](int column, float) {
    if (column < size) to[column] = from_float<T>(0.0f);
  });
}

/// to[column] = others * to[column] + x * here
template <int kColumns>
__device__ __forceinline__ void merge_columns(float* to, WarpSums<kColumns>& sums, int r, int64_t size,
                                              float others, float here) {
  sums.for_row(r, [&](int column, float x) {
    if (column < size) to[column] = fmaf(others, to[column], x * here);
  });
}

/// Number of elements of a head over which scores are summed.
inline int score_width(int64_t head_dim) { return static_cast<int>((head_dim + 15) / 16 * 16); }

}  // namespace hawser::kernels::cuda
