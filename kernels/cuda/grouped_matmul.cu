// The products of experts, by the plain tiles of matmul_tiled.cu. The division of rows among experts is known
// only on the device, so the grid has room for any division, and a block finds its expert from the offsets.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/matmul_tile.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

/// The table in dtype_bytes would be in a thread's local memory.
__device__ __forceinline__ const void* at(const void* p, DType type, int64_t element) {
  return static_cast<const char*>(p) + element * (type == DType::kF32 ? 4 : 2);
}

__device__ __forceinline__ void store_element(const GroupedMatmul& m, int64_t at, float sum) {
  if (m.c_type == DType::kBf16) {
    static_cast<bf16*>(m.c)[at] = from_float<bf16>(sum);
  } else {
    float* const c = static_cast<float*>(m.c) + at;
    *c = m.accumulate ? *c + sum : sum;
  }
}

/// Computes tile number blockIdx.x of the rows; no tile has rows of two groups. Blocks after the last tile do
/// nothing.
__global__ void __launch_bounds__(kTileThreads) grouped_rows_kernel(const GroupedMatmul m) {
  int64_t group = 0, tile = blockIdx.x, begin = 0, end = 0;
  for (; group < m.groups; ++group) {
    begin = m.offsets[group], end = m.offsets[group + 1];
    const int64_t tiles = (end - begin + kTile - 1) / kTile;
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (group == m.groups) return;
  const int64_t row0 = tile * kTile, column0 = static_cast<int64_t>(blockIdx.y) * kTile, rows = end - begin;
  const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;
  float sum[kEach][kEach] = {};
  multiply_tile(sum, {at(m.a, m.a_type, begin * m.lda), m.a_type, true, m.lda, row0, rows},
                {at(m.b, m.b_type, group * m.k * m.n), m.b_type, m.b_transposed, m.b_transposed ? m.k : m.n,
                 column0, m.n},
                m.k, product_type(m) == DType::kBf16);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row < rows && column < m.n) store_element(m, (begin + row) * m.ldc + column, sum[i][j]);
    }
  }
}

__global__ void __launch_bounds__(kTileThreads)
    grouped_sums_kernel(const GroupedMatmul m, int64_t column_tiles) {
  const int64_t group = blockIdx.y, begin = m.offsets[group], rows = m.offsets[group + 1] - begin;
  const int64_t row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;
  float sum[kEach][kEach] = {};
  multiply_tile(sum, {at(m.a, m.a_type, begin * m.lda), m.a_type, false, m.lda, row0, m.k},
                {at(m.b, m.b_type, begin * m.ldb), m.b_type, false, m.ldb, column0, m.n}, rows,
                product_type(m) == DType::kBf16);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row < m.k && column < m.n) store_element(m, (group * m.k + row) * m.n + column, sum[i][j]);
    }
  }
}

}  // namespace

void grouped_matmul(const GroupedMatmul& args, Stream& stream) {
  if (args.n <= 0 || args.k <= 0 || args.groups <= 0) return;
  CudaStream& cuda = cuda_stream(stream);
  const int64_t column_tiles = blocks_for(args.n, kTile);
  if (args.sums_rows) {
    const dim3 blocks(static_cast<unsigned>(blocks_for(args.k, kTile) * column_tiles),
                      static_cast<unsigned>(args.groups));
    launch(cuda, "grouped_matmul", {blocks, kTileThreads, sizeof(TileOperands)}, grouped_sums_kernel, args,
           column_tiles);
  } else if (args.rows > 0) {
    const dim3 blocks(static_cast<unsigned>(blocks_for(args.rows, kTile) + args.groups),
                      static_cast<unsigned>(column_tiles));
    launch(cuda, "grouped_matmul", {blocks, kTileThreads, sizeof(TileOperands)}, grouped_rows_kernel, args);
  }
}

}  // namespace hawser::kernels::cuda
