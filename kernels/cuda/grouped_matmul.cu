// The products of experts: bf16 ones on tensor cores (tensor_tile.h), f32 ones by the plain tiles of
// matmul_tile.h. The division of rows among experts is known only on the device, so the grid has room for any
// division, and a block finds its expert from the offsets.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/matmul_tile.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/tensor_tile.h"

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

/// Stores the sums of columns 2 i and, if `both`, 2 i + 1. Two columns are stored in one access if `wide`,
/// which their addresses must allow.
__device__ __forceinline__ void store_pair(const GroupedMatmul& m, int64_t at, const float* sum, bool wide,
                                           bool both) {
  if (!wide || !both) {
    store_element(m, at, sum[0]);
    if (both) store_element(m, at + 1, sum[1]);
  } else if (m.c_type == DType::kBf16) {
    store<2>(static_cast<bf16*>(m.c) + at, sum);
  } else {
    float* const c = static_cast<float*>(m.c) + at;
    float before[2] = {};
    if (m.accumulate) load<2>(before, c);
    const float after[2] = {m.accumulate ? before[0] + sum[0] : sum[0],
                            m.accumulate ? before[1] + sum[1] : sum[1]};
    store<2>(c, after);
  }
}

/// A tile of rows of one group.
struct GroupTile {
  int64_t group, begin, rows;  ///< the group, its first row, its number of rows
  int64_t row0;                ///< the tile's first row within the group
};

/// Finds tile number `tile`. A tile has at most `height` rows, all of one group. Returns false if there is no
/// such tile.
__device__ __forceinline__ bool find_tile(const GroupedMatmul& m, int64_t tile, int height,
                                          GroupTile* found) {
  for (int64_t group = 0; group < m.groups; ++group) {
    const int64_t begin = m.offsets[group], rows = m.offsets[group + 1] - begin;
    const int64_t tiles = (rows + height - 1) / height;
    if (tile < tiles) {
      *found = {group, begin, rows, tile * height};
      return true;
    }
    tile -= tiles;
  }
  return false;
}

/// Computes tile number blockIdx.x of the rows. Blocks after the last tile do nothing.
__global__ void __launch_bounds__(kTileThreads) grouped_rows_kernel(const GroupedMatmul m) {
  GroupTile tile;
  if (!find_tile(m, blockIdx.x, kTile, &tile)) return;
  const int64_t column0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int ty = static_cast<int>(threadIdx.x) / kSide, tx = static_cast<int>(threadIdx.x) % kSide;
  float sum[kEach][kEach] = {};
  multiply_tile(sum, {at(m.a, m.a_type, tile.begin * m.lda), m.a_type, true, m.lda, tile.row0, tile.rows},
                {at(m.b, m.b_type, tile.group * m.k * m.n), m.b_type, m.b_transposed,
                 m.b_transposed ? m.k : m.n, column0, m.n},
                m.k, false);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = tile.row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row < tile.rows && column < m.n) store_element(m, (tile.begin + row) * m.ldc + column, sum[i][j]);
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
                {at(m.b, m.b_type, begin * m.ldb), m.b_type, false, m.ldb, column0, m.n}, rows, false);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + ty + i * kSide, column = column0 + tx + j * kSide;
      if (row < m.k && column < m.n) store_element(m, (group * m.k + row) * m.n + column, sum[i][j]);
    }
  }
}

/// True if the rows of a and b, and pairs of columns of c, allow wide accesses.
struct Wide {
  bool a, b, c;
};

/// Like grouped_rows_kernel, on tensor cores. kRight is kDepth if b is transposed.
template <Inner kRight>
__global__ void __launch_bounds__(kTensorThreads, 2)
    grouped_rows_tensor_kernel(const GroupedMatmul m, Wide wide) {
  GroupTile tile;
  if (!find_tile(m, blockIdx.x, kTensorTile, &tile)) return;
  const int64_t column0 = static_cast<int64_t>(blockIdx.y) * kTensorTile;
  TensorSums sums;
  multiply_tensors<Inner::kDepth, kRight>(
      sums, {at(m.a, m.a_type, tile.begin * m.lda), m.a_type, m.lda, tile.row0, tile.rows, m.k, wide.a},
      {at(m.b, m.b_type, tile.group * m.k * m.n), m.b_type, kRight == Inner::kDepth ? m.k : m.n, column0, m.n,
       m.k, wide.b});
  sums.for_pairs([&](int i, int j, const float* sum) {
    const int64_t row = tile.row0 + i, column = column0 + j;
    if (row < tile.rows && column < m.n)
      store_pair(m, (tile.begin + row) * m.ldc + column, sum, wide.c, column + 1 < m.n);
  });
}

/// Like grouped_sums_kernel, on tensor cores.
__global__ void __launch_bounds__(kTensorThreads, 2)
    grouped_sums_tensor_kernel(const GroupedMatmul m, int64_t column_tiles, Wide wide) {
  const int64_t group = blockIdx.y, begin = m.offsets[group], rows = m.offsets[group + 1] - begin;
  const int64_t row0 = blockIdx.x / column_tiles * kTensorTile,
                column0 = blockIdx.x % column_tiles * kTensorTile;
  TensorSums sums;
  multiply_tensors<Inner::kLine, Inner::kLine>(
      sums, {at(m.a, m.a_type, begin * m.lda), m.a_type, m.lda, row0, m.k, rows, wide.a},
      {at(m.b, m.b_type, begin * m.ldb), m.b_type, m.ldb, column0, m.n, rows, wide.b});
  sums.for_pairs([&](int i, int j, const float* sum) {
    const int64_t row = row0 + i, column = column0 + j;
    if (row < m.k && column < m.n)
      store_pair(m, (group * m.k + row) * m.n + column, sum, wide.c, column + 1 < m.n);
  });
}

/// Returns the grid for tiles of `side` rows and columns. x and y are the tiles of an expert and the experts
/// if rows are summed, otherwise the tiles of rows and of columns.
dim3 tiles_of(const GroupedMatmul& m, int side) {
  const int64_t column_tiles = blocks_for(m.n, side);
  if (m.sums_rows)
    return dim3(static_cast<unsigned>(blocks_for(m.k, side) * column_tiles), static_cast<unsigned>(m.groups));
  return dim3(static_cast<unsigned>(blocks_for(m.rows, side) + m.groups),
              static_cast<unsigned>(column_tiles));
}

void run_plain(const GroupedMatmul& m, CudaStream& stream) {
  const LaunchShape shape = {tiles_of(m, kTile), kTileThreads, sizeof(TileOperands)};
  if (m.sums_rows) {
    launch(stream, "grouped_matmul", shape, grouped_sums_kernel, m, blocks_for(m.n, kTile));
  } else {
    launch(stream, "grouped_matmul", shape, grouped_rows_kernel, m);
  }
}

void run_on_tensor_cores(const GroupedMatmul& m, CudaStream& stream) {
  const int64_t b_row = m.sums_rows ? m.ldb : m.b_transposed ? m.k : m.n, c_row = m.sums_rows ? m.n : m.ldc;
  const Wide wide = {wide_rows(m.a, m.lda, m.a_type), wide_rows(m.b, b_row, m.b_type),
                     all_wide({m.c}) && c_row % 2 == 0};
  const auto shape = [&](size_t stages) {
    return LaunchShape{tiles_of(m, kTensorTile), kTensorThreads, stages};
  };
  constexpr Inner kDepth = Inner::kDepth, kLine = Inner::kLine;
  if (m.sums_rows) {
    launch(stream, "grouped_matmul", shape(sizeof(TensorStages<kLine, kLine>)), grouped_sums_tensor_kernel, m,
           blocks_for(m.n, kTensorTile), wide);
  } else if (m.b_transposed) {
    launch(stream, "grouped_matmul", shape(sizeof(TensorStages<kDepth, kDepth>)),
           grouped_rows_tensor_kernel<kDepth>, m, wide);
  } else {
    launch(stream, "grouped_matmul", shape(sizeof(TensorStages<kDepth, kLine>)),
           grouped_rows_tensor_kernel<kLine>, m, wide);
  }
}

}  // namespace

void grouped_matmul(const GroupedMatmul& args, Stream& stream) {
  if (args.n <= 0 || args.k <= 0 || args.groups <= 0 || (!args.sums_rows && args.rows <= 0)) return;
  CudaStream& cuda = cuda_stream(stream);
  if (product_type(args) == DType::kBf16) {
    run_on_tensor_cores(args, cuda);
  } else {
    run_plain(args, cuda);
  }
}

}  // namespace hawser::kernels::cuda
