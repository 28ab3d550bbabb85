// Finds the largest magnitude of a tensor, and rounds a tensor to fp8 numbers, as a whole or in tiles, by the
// formula of the CPU. Threads read and write kWide elements of a row at once.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/fp8_numbers.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kThreads = 256;

/// Number i of the pieces of kWide elements into which rows of n elements are divided.
struct Piece {
  int64_t row, column, count;  // count: elements, up to kWide

  __device__ Piece(int64_t i, int64_t n) {
    const int64_t in_row = (n + kWide - 1) / kWide;
    row = i / in_row, column = (i - row * in_row) * kWide;
    count = n - column < kWide ? n - column : kWide;
  }
};
int64_t pieces_of(int64_t rows, int64_t n) { return rows * blocks_for(n, kWide); }

__device__ __forceinline__ void store_bits(uint16_t* y, const uint16_t* bits, int64_t count, bool wide) {
  if (wide && count == kWide) {
    Packed<uint16_t, kWide> packed;
#pragma unroll
    for (int k = 0; k < kWide; ++k) packed.element[k] = bits[k];
    *reinterpret_cast<Packed<uint16_t, kWide>*>(y) = packed;
    return;
  }
#pragma unroll
  for (int k = 0; k < kWide; ++k) {
    if (k < count) y[k] = bits[k];
  }
}

__device__ __forceinline__ void round_piece(uint16_t* y, const float* x, int64_t count, bool wide,
                                            const Fp8Rounding& rounding) {
  uint16_t bits[kWide];
#pragma unroll
  for (int k = 0; k < kWide; ++k) bits[k] = rounding.rounded(x[k]);
  store_bits(y, bits, count, wide);
}

template <class T>
__global__ void __launch_bounds__(kThreads) maximum_kernel(const Fp8Maximum a, bool wide) {
  const int64_t rows = a.end != nullptr ? *a.end : a.rows;
  const int64_t pieces = rows * ((a.n + kWide - 1) / kWide),
                step = static_cast<int64_t>(gridDim.x) * kThreads;
  unsigned most = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < pieces; i += step) {
    const Piece piece(i, a.n);
    float x[kWide];
    load_some(x, static_cast<const T*>(a.x) + piece.row * a.stride + piece.column, piece.count, wide);
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const unsigned size = finite_size(x[k]);
      most = size > most ? size : most;
    }
  }
  most = warp_most(most);
  if (lane_of_thread() == 0) atomicMax(reinterpret_cast<unsigned*>(a.maximum), most);
}

template <class T>
struct TensorRounding {
  Fp8Round a;
  Fp8Format f;
  bool wide;

  template <int N>
  __device__ void at(int64_t i) const {
    const Piece piece(i, a.n);
    if (a.end != nullptr && piece.row >= *a.end) return;
    float x[kWide];
    load_some(x, static_cast<const T*>(a.x) + piece.row * a.x_stride + piece.column, piece.count, wide);
    const Fp8Rounding rounding(Fp8Scale(f, bits_of(*a.maximum), a.margin));
    round_piece(a.y + piece.row * a.y_stride + piece.column, x, piece.count, wide, rounding);
  }
};

/// The lanes that have a row of a tile, and the rows that a block of 256 threads has at once.
constexpr int kRowLanes = static_cast<int>(kFp8Block) / kWide, kRowsAtOnce = kThreads / kRowLanes;

/// The largest magnitudes of each column, by the rows that a thread has.
struct ColumnMaxima {
  unsigned value[kRowsAtOnce][kFp8Block];
};

/// Replaces the maxima of a thread's columns in its rows by those of its tile.
__device__ __forceinline__ void join(unsigned* most, Fp8Tile tile, int lane, int first_row) {
  auto& all = shared_memory<ColumnMaxima>();
#pragma unroll
  for (int k = 0; k < kWide; ++k) all.value[first_row][lane * kWide + k] = most[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kWide; ++k)
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const unsigned other = all.value[r][lane * kWide + k];
      most[k] = other > most[k] ? other : most[k];
    }
  if (tile == Fp8Tile::k128x1) return;
  unsigned largest = 0;
#pragma unroll
  for (int k = 0; k < kWide; ++k) largest = most[k] > largest ? most[k] : largest;
  largest = warp_most(largest);  // the lanes of a warp have all columns
#pragma unroll
  for (int k = 0; k < kWide; ++k) most[k] = largest;
}

/// Returns the largest magnitude of the lanes that have a row.
__device__ __forceinline__ unsigned row_most(unsigned x) {
#pragma unroll
  for (int bits = kRowLanes / 2; bits > 0; bits /= 2) {
    const unsigned other = __shfl_xor_sync(kAllLanes, x, bits);
    x = other > x ? other : x;
  }
  return x;
}

/// Each thread block rounds 128 columns of up to 128 rows: one tile of 128 x 128, 128 of 128 x 1, or 128 of
/// 1 x 128. There are thread blocks for the largest number of tiles that the groups of rows can have; those
/// without a tile end at once.
template <class T>
__global__ void __launch_bounds__(kThreads) tile_kernel(const Fp8Round a, const Fp8Format f, bool wide) {
  const bool one_row = a.tile == Fp8Tile::k1x128;
  const int64_t groups = one_row ? 1 : a.groups, rows = a.end != nullptr ? *a.end : a.rows;
  const auto first_row = [&](int64_t group) {
    if (groups == 1) return group * rows;
    return a.offsets != nullptr ? int64_t{a.offsets[group]} : a.rows / groups * group;
  };
  int64_t rest = blockIdx.x, group = 0, row = 0, last = 0;
  for (; group < groups; ++group) {
    row = first_row(group), last = first_row(group + 1);
    const int64_t tiles = (last - row + kFp8Block - 1) / kFp8Block;
    if (rest < tiles) break;
    rest -= tiles;
  }
  if (group == groups) return;
  row += rest * kFp8Block;
  if (row + kFp8Block < last) last = row + kFp8Block;
  const int lane = static_cast<int>(threadIdx.x) % kRowLanes, own = static_cast<int>(threadIdx.x) / kRowLanes;
  const int64_t column = int64_t{blockIdx.y} * kFp8Block + lane * kWide;
  const int64_t columns = a.n - column < kWide ? a.n - column : kWide;  // 0 or less beyond the last column
  const auto load_row = [&](float* x, int64_t r) {
    load_some(x, static_cast<const T*>(a.x) + r * a.x_stride + column, r < last ? columns : 0, wide);
  };
  const auto store_row = [&](const float* x, int64_t r, const Fp8Rounding& rounding) {
    if (r < last && columns > 0) round_piece(a.y + r * a.y_stride + column, x, columns, wide, rounding);
  };
  unsigned most[kWide] = {};
  float x[kWide];
  for (int i = 0; i < kFp8Block / kRowsAtOnce; ++i) {
    const int64_t r = row + own + i * kRowsAtOnce;
    load_row(x, r);
    unsigned largest = 0;
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const unsigned size = finite_size(x[k]);
      most[k] = size > most[k] ? size : most[k];
      largest = size > largest ? size : largest;
    }
    if (one_row) store_row(x, r, Fp8Rounding(Fp8Scale(f, row_most(largest), a.margin)));
  }
  if (one_row) return;
  join(most, a.tile, lane, own);
  for (int i = 0; i < kFp8Block / kRowsAtOnce; ++i) {
    const int64_t r = row + own + i * kRowsAtOnce;
    load_row(x, r);
    if (r >= last || columns <= 0) continue;
    uint16_t bits[kWide];
#pragma unroll
    for (int k = 0; k < kWide; ++k) bits[k] = Fp8Rounding(Fp8Scale(f, most[k], a.margin)).rounded(x[k]);
    store_bits(a.y + r * a.y_stride + column, bits, columns, wide);
  }
}

}  // namespace

void fp8_maximum(const Fp8Maximum& args, Stream& stream) {
  CudaStream& s = cuda_stream(stream);
  if (!args.accumulate)
    s.succeeded(cudaMemsetAsync(args.maximum, 0, sizeof *args.maximum, s.handle), "fp8_maximum");
  if (args.rows * args.n == 0) return;
  const int64_t wanted = blocks_for(pieces_of(args.rows, args.n), kThreads);
  const int64_t most = int64_t{s.multiprocessors} * 8;
  for_type(args.x_type, [&](auto tag) {
    launch(s, "fp8_maximum", {grid(wanted < most ? wanted : most), kThreads},
           maximum_kernel<type_of<decltype(tag)>>, args, wide_rows(args.x, args.stride, args.x_type));
  });
}

void fp8_round(const Fp8Round& args, Stream& stream) {
  CudaStream& s = cuda_stream(stream);
  const Fp8Format f = fp8_format(args.type);
  const bool wide =
      wide_rows(args.x, args.x_stride, args.x_type) && wide_rows(args.y, args.y_stride, DType::kBf16);
  if (args.rows * args.n == 0) return;
  for_type(args.x_type, [&](auto tag) {
    using T = type_of<decltype(tag)>;
    if (args.tile == Fp8Tile::kTensor)
      return for_each_element(s, "fp8_round", pieces_of(args.rows, args.n), false,
                              TensorRounding<T>{args, f, wide});
    const int64_t groups = args.tile == Fp8Tile::k1x128 ? 0 : args.groups;
    const dim3 tiles(static_cast<unsigned>(blocks_for(args.rows, kFp8Block) + groups),
                     static_cast<unsigned>(blocks_for(args.n, kFp8Block)));
    launch(s, "fp8_round", {tiles, kThreads, sizeof(ColumnMaxima)}, tile_kernel<T>, args, f, wide);
  });
}

}  // namespace hawser::kernels::cuda
