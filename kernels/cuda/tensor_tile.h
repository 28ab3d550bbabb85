// A tile of a product of bf16 matrices on tensor cores: 128 x 128 sums by a block of eight warps, each with
// 64 rows and 32 columns of them. Operands pass through registers into one of two stages in shared memory
// while the other is multiplied, so f32 operands are rounded on the way, and any stride is possible.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/tensor_core.h"

namespace hawser::kernels::cuda {

constexpr int kTensorTile = 128, kTensorDepth = 32, kTensorThreads = 256;

/// An operand: `lines` rows of a left operand or columns of a right one, of which the tile takes line0 and
/// on, and `depth` depths. Stored rows are `ld` elements apart. `wide`: each starts at a multiple of 16
/// bytes.
struct TensorOperand {
  const void* x;
  DType type;
  int64_t ld, line0, lines, depth;
  bool wide;
};

/// One stage of an operand. After each row there are 16 bytes more, so that the eight rows of a matrix that
/// load_left and load_right read lie in different banks.
template <Inner kInner>
struct OperandStage {
  static constexpr int kRow = kInner == Inner::kDepth ? kTensorDepth : kTensorTile, kStride = kRow + 8;
  static constexpr int kRows = kTensorTile * kTensorDepth / kRow;
  alignas(16) bf16 element[kRows * kStride];
};

/// The part of a stage that one thread carries.
template <Inner kInner>
struct CarriedPart {
  using Stage = OperandStage<kInner>;
  static constexpr int kRowChunks = Stage::kRow / kWide, kChunks = Stage::kRows * kRowChunks / kTensorThreads;
  Packed<bf16, kWide> chunk[kChunks];

  static __device__ __forceinline__ int row(int i) {
    return (static_cast<int>(threadIdx.x) + i * kTensorThreads) / kRowChunks;
  }
  static __device__ __forceinline__ int start(int i) {
    return (static_cast<int>(threadIdx.x) + i * kTensorThreads) % kRowChunks * kWide;
  }

  /// Reads depths depth0 and on; elements outside of the operand are zero.
  __device__ __forceinline__ void fetch(const TensorOperand& o, int64_t depth0) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int64_t line = o.line0 + (kInner == Inner::kDepth ? row(i) : start(i));
      const int64_t depth = depth0 + (kInner == Inner::kDepth ? start(i) : row(i));
      const int64_t at = kInner == Inner::kDepth ? line * o.ld + depth : depth * o.ld + line;
      const bool inside = line < o.lines && depth < o.depth;
      const int64_t count = !inside ? 0 : kInner == Inner::kDepth ? o.depth - depth : o.lines - line;
      if (o.type == DType::kBf16 && o.wide && count >= kWide) {
        chunk[i] = *reinterpret_cast<const Packed<bf16, kWide>*>(static_cast<const bf16*>(o.x) + at);
        continue;
      }
      float x[kWide];
      if (o.type == DType::kBf16) {
        load_some(x, static_cast<const bf16*>(o.x) + at, count, false);
      } else {
        load_some(x, static_cast<const float*>(o.x) + at, count, o.wide);
      }
#pragma unroll
      for (int j = 0; j < kWide; ++j) chunk[i].element[j] = from_float<bf16>(x[j]);
    }
  }

  __device__ __forceinline__ void put(Stage& stage) const {
#pragma unroll
    for (int i = 0; i < kChunks; ++i)
      *reinterpret_cast<Packed<bf16, kWide>*>(stage.element + row(i) * Stage::kStride + start(i)) = chunk[i];
  }
};

template <Inner kLeft, Inner kRight>
struct TensorStages {
  struct {
    OperandStage<kLeft> left;
    OperandStage<kRight> right;
  } stage[2];
};

/// The sums of one thread. A warp has four times 16 rows and two times 16 columns.
struct TensorSums {
  static constexpr int kWarpRows = 64, kWarpColumns = 32, kRowTiles = kWarpRows / 16,
                       kColumnTiles = kWarpColumns / 16;
  float sum[kRowTiles][kColumnTiles][2][4] = {};

  static __device__ __forceinline__ int warp_row() {
    return static_cast<int>(threadIdx.x) / kWarpLanes % (kTensorTile / kWarpRows) * kWarpRows;
  }
  static __device__ __forceinline__ int warp_column() {
    return static_cast<int>(threadIdx.x) / kWarpLanes / (kTensorTile / kWarpRows) * kWarpColumns;
  }

  template <Inner kLeft, Inner kRight>
  __device__ __forceinline__ void add(const OperandStage<kLeft>& left, const OperandStage<kRight>& right) {
#pragma unroll
    for (int depth = 0; depth < kTensorDepth; depth += 16) {
      Fragment rows[kRowTiles];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        rows[r] = load_left<kLeft>(left.element, left.kStride, warp_row() + r * 16, depth);
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        const Fragment columns =
            load_right<kRight>(right.element, right.kStride, warp_column() + c * 16, depth);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) multiply_add(sum[r][c], rows[r], columns);
      }
    }
  }

  /// Calls body(row, column, two sums), where the second sum belongs to column + 1, for rows and columns of
  /// the tile.
  template <class Body>
  __device__ __forceinline__ void for_pairs(const Body& body) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int c = 0; c < 2 * kColumnTiles; ++c) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          body(warp_row() + r * 16 + half * 8 + g, warp_column() + c * 8 + 2 * t,
               sum[r][c / 2][c % 2] + 2 * half);
        }
      }
    }
  }
};

/// Adds the product of two operands of equal depth to `sums`. All threads of the block must call it, with
/// equal arguments. Each sum adds its depths in ascending order.
template <Inner kLeft, Inner kRight>
__device__ __forceinline__ void multiply_tensors(TensorSums& sums, const TensorOperand& left,
                                                 const TensorOperand& right) {
  auto& shared = shared_memory<TensorStages<kLeft, kRight>>();
  CarriedPart<kLeft> left_part;
  CarriedPart<kRight> right_part;
  left_part.fetch(left, 0);
  right_part.fetch(right, 0);
  // Warps without rows or columns carry their part of the operands, but multiply nothing.
  const bool has_sums = left.line0 + TensorSums::warp_row() < left.lines &&
                        right.line0 + TensorSums::warp_column() < right.lines;
  int turn = 0;
  for (int64_t depth = 0; depth < left.depth; depth += kTensorDepth, turn ^= 1) {
    auto& stage = shared.stage[turn];
    left_part.put(stage.left);
    right_part.put(stage.right);
    __syncthreads();  // the other stage is free after it, too
    if (depth + kTensorDepth < left.depth) {
      left_part.fetch(left, depth + kTensorDepth);
      right_part.fetch(right, depth + kTensorDepth);
    }
    if (has_sums) sums.add(stage.left, stage.right);
  }
}

}  // namespace hawser::kernels::cuda
