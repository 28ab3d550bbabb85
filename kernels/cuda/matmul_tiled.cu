// The matrix product without a library: plain tiles in shared memory, fp32 arithmetic without tensor cores.
// It runs under the emulator, which lacks cuBLASLt, and for cases that cuBLASLt does not support.
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/matmul_tile.h"

namespace hawser::kernels::cuda {
namespace {

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

__global__ void __launch_bounds__(kTileThreads) matmul_kernel(const Matmul m, int64_t column_tiles) {
  const int64_t row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;
  float sum[kEach][kEach] = {};
  multiply_tile(sum, {m.a, m.a_type, !m.a_transposed, m.lda, row0, m.m},
                {m.b, m.b_type, m.b_transposed, m.ldb, column0, m.n}, m.k, product_type(m) == DType::kBf16);
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
  launch(stream, "matmul",
         {grid(blocks_for(args.m, kTile) * column_tiles), kTileThreads, sizeof(TileOperands)}, matmul_kernel,
         args, column_tiles);
}

}  // namespace hawser::kernels::cuda
