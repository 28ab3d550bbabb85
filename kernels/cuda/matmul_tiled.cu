// The matrix product without a library: plain tiles in shared memory, fp32 arithmetic without tensor cores.
// It runs under the emulator, where cuBLASLt is missing, and for cases that cuBLASLt does not support.
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/packed.h"
#include "kernels/cuda/shared_memory.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kSide = 16, kThreads = kSide * kSide, kEach = kTile / kSide;

struct Shared {
  float a[kDepth][kTile + 1], b[kDepth][kTile + 1];
};

__device__ __forceinline__ float element(const void* p, DType type, int64_t at, bool round) {
  if (type == DType::kBf16) return to_float(static_cast<const bf16*>(p)[at]);
  const float x = static_cast<const float*>(p)[at];
  return round ? rounded_to<bf16>(x) : x;
}

/// Loads rows row0.. of op(x) at depths p0.., [kDepth][kTile], zero outside. `along_depth`: neighbours in
/// memory are neighbours in depth.
__device__ __forceinline__ void load_tile(float (*tile)[kTile + 1], const void* x, DType type, bool round,
                                          int64_t ld, bool along_depth, int64_t row0, int64_t rows,
                                          int64_t p0, int64_t depth) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int p = along_depth ? i % kDepth : i / kTile, r = along_depth ? i / kDepth : i % kTile;
    const int64_t row = row0 + r, at_depth = p0 + p;
    const bool inside = row < rows && at_depth < depth;
    tile[p][r] =
        inside ? element(x, type, along_depth ? row * ld + at_depth : at_depth * ld + row, round) : 0.0f;
  }
}

__device__ __forceinline__ void store_element(const Matmul& m, int64_t i, int64_t j, float sum) {
  if (i >= m.m || j >= m.n) return;
  if (m.bias != nullptr) sum += element(m.bias, m.bias_type, j, false);
  const int64_t at = i * m.ldc + j;
  if (m.c_type == DType::kBf16) {
    static_cast<bf16*>(m.c)[at] = from_float<bf16>(sum);
  } else {
    float* c = static_cast<float*>(m.c) + at;
    *c = m.accumulate ? *c + sum : sum;
  }
}

__global__ void __launch_bounds__(kThreads) matmul_kernel(const Matmul m, int64_t column_tiles) {
  auto& shared = shared_memory<Shared>();
  const int64_t row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;
  const bool round = multiplies_bf16(m);
  float sum[kEach][kEach] = {};
  for (int64_t p0 = 0; p0 < m.k; p0 += kDepth) {
    load_tile(shared.a, m.a, m.a_type, round, m.lda, !m.a_transposed, row0, m.m, p0, m.k);
    load_tile(shared.b, m.b, m.b_type, round, m.ldb, m.b_transposed, column0, m.n, p0, m.k);
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      float a[kEach], b[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) a[e] = shared.a[p][ty + e * kSide];
#pragma unroll
      for (int e = 0; e < kEach; ++e) b[e] = shared.b[p][tx + e * kSide];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      store_element(m, row0 + ty + i * kSide, column0 + tx + j * kSide, sum[i][j]);
  }
}

}  // namespace

void matmul_tiled(const Matmul& args, CudaStream& stream) {
  if (args.m <= 0 || args.n <= 0) return;
  const int64_t column_tiles = blocks_for(args.n, kTile);
  launch(stream, "matmul", {grid(blocks_for(args.m, kTile) * column_tiles), kThreads, sizeof(Shared)},
         matmul_kernel, args, column_tiles);
}

}  // namespace hawser::kernels::cuda
