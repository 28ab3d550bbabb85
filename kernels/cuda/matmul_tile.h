// A tile of a matrix product in shared memory, in fp32 without tensor cores: the common part of
// matmul_tiled.cu and grouped_matmul.cu.
#pragma once

#include "kernels/cuda/packed.h"
#include "kernels/cuda/shared_memory.h"

namespace hawser::kernels::cuda {

constexpr int kTile = 64, kDepth = 16, kSide = 16, kTileThreads = kSide * kSide, kEach = kTile / kSide;

struct TileOperands {
  float a[kDepth][kTile + 1], b[kDepth][kTile + 1];
};

__device__ __forceinline__ float element(const void* p, DType type, int64_t at, bool round) {
  if (type == DType::kBf16) return to_float(static_cast<const bf16*>(p)[at]);
  const float x = static_cast<const float*>(p)[at];
  return round ? rounded_to<bf16>(x) : x;
}

/// Loads rows row0.. of op(x) at depths p0.. into [kDepth][kTile]; elements outside are zero. `along_depth`:
/// consecutive elements in memory are consecutive in depth.
__device__ __forceinline__ void load_tile(float (*tile)[kTile + 1], const void* x, DType type, bool round,
                                          int64_t ld, bool along_depth, int64_t row0, int64_t rows,
                                          int64_t p0, int64_t depth) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kTileThreads) {
    const int p = along_depth ? i % kDepth : i / kTile, r = along_depth ? i / kDepth : i % kTile;
    const int64_t row = row0 + r, at_depth = p0 + p;
    const bool inside = row < rows && at_depth < depth;
    tile[p][r] =
        inside ? element(x, type, along_depth ? row * ld + at_depth : at_depth * ld + row, round) : 0.0f;
  }
}

/// One operand of a tile: op(x) with `rows` rows and `depth` depths, from which the tile takes rows row0 and
/// on.
struct TileSide {
  const void* x;
  DType type;
  bool along_depth;
  int64_t ld, row0, rows;
};

/// Computes sum[i][j], the product of the tile's rows ty + i kSide of a and tx + j kSide of b. All threads
/// must call it.
__device__ __forceinline__ void multiply_tile(float (&sum)[kEach][kEach], const TileSide& a,
                                              const TileSide& b, int64_t depth, bool round) {
  auto& shared = shared_memory<TileOperands>();
  const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;
  for (int64_t p0 = 0; p0 < depth; p0 += kDepth) {
    load_tile(shared.a, a.x, a.type, round, a.ld, a.along_depth, a.row0, a.rows, p0, depth);
    load_tile(shared.b, b.x, b.type, round, b.ld, b.along_depth, b.row0, b.rows, p0, depth);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      float x[kEach], y[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) x[e] = shared.a[p][ty + e * kSide];
#pragma unroll
      for (int e = 0; e < kEach; ++e) y[e] = shared.b[p][tx + e * kSide];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
}

}  // namespace hawser::kernels::cuda
