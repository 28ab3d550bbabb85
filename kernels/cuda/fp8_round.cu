// Finds the largest magnitude of a tensor, and rounds a tensor to fp8 numbers, as a whole or in tiles, by the
// formula of the CPU.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/types.h"
#include "kernels/include/fp8_round.h"

namespace hawser::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }
__device__ inline float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }

/// Floats that are not negative have the order of their bits.
template <class T>
__global__ void __launch_bounds__(kThreads) maximum_kernel(const Fp8Maximum a) {
  const int64_t rows = a.end != nullptr ? *a.end : a.rows;
  const int64_t all = rows * a.n, step = static_cast<int64_t>(gridDim.x) * kThreads;
  unsigned most = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all; i += step) {
    const int64_t row = i / a.n;
    const unsigned size =
        bits_of(to_float(static_cast<const T*>(a.x)[row * a.stride + i - row * a.n])) & 0x7fffffffu;
    if (size < 0x7f800000u && size > most) most = size;
  }
  most = warp_most(most);
  if (lane_of_thread() == 0) atomicMax(reinterpret_cast<unsigned*>(a.maximum), most);
}

/// Rounds a number with the exponent e that follows from a maximum.
struct Rounding {
  int shift;
  float down, up, most;
  unsigned least;

  __device__ Rounding(const Fp8Format& f, unsigned maximum, int margin) : shift(23 - f.fraction_bits) {
    const int e = fp8_exponent(f, maximum, margin);
    const unsigned largest =
        static_cast<unsigned>(e == f.largest_exponent ? f.code_at_largest : f.largest_code);
    down = float_of(static_cast<unsigned>(254 - e) << 23);
    up = float_of(static_cast<unsigned>(e) << 23);
    most = float_of((largest << shift) + (static_cast<unsigned>(127 - f.bias) << 23));
    least = static_cast<unsigned>(128 - f.bias) << 23;
  }

  /// Returns the bf16 bits.
  __device__ uint16_t operator()(float x) const {
    const float size = float_of(bits_of(x) & 0x7fffffffu), scaled = size * down < most ? size * down : most;
    const unsigned own = bits_of(scaled) & 0x7f800000u;
    const float unit = float_of((own > least ? own : least) + (static_cast<unsigned>(shift) << 23));
    unsigned bits = bits_of((scaled + unit - unit) * up) | (bits_of(x) & 0x80000000u);
    if (bits_of(size) > 0x7f7fffffu) bits = 0x7fc00000u;
    return static_cast<uint16_t>(bits >> 16);
  }
};

template <class T>
struct TensorRounding {
  Fp8Round a;
  Fp8Format f;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / a.n, column = i - row * a.n;
    if (a.end != nullptr && row >= *a.end) return;
    const Rounding rounding(f, bits_of(*a.maximum), a.margin);
    a.y[row * a.y_stride + column] =
        rounding(to_float(static_cast<const T*>(a.x)[row * a.x_stride + column]));
  }
};

struct WarpMaxima {
  unsigned value[kFp8Block / kWarpLanes];
};

/// Each thread block rounds one tile, and each of its threads one column. There are thread blocks for the
/// largest number of tiles that the groups of rows can have; those without a tile end at once.
template <class T>
__global__ void __launch_bounds__(kFp8Block) tile_kernel(const Fp8Round a, const Fp8Format f) {
  const bool one_row = a.tile == Fp8Tile::k1x128;
  const int64_t groups = one_row ? 1 : a.groups, most_rows = one_row ? 1 : kFp8Block;
  const int64_t rows = a.end != nullptr ? *a.end : a.rows;
  const auto first_row = [&](int64_t group) {
    if (groups == 1) return group * rows;
    return a.offsets != nullptr ? int64_t{a.offsets[group]} : a.rows / groups * group;
  };
  int64_t rest = blockIdx.x, group = 0, row = 0, last = 0;
  for (; group < groups; ++group) {
    row = first_row(group), last = first_row(group + 1);
    const int64_t tiles = (last - row + most_rows - 1) / most_rows;
    if (rest < tiles) break;
    rest -= tiles;
  }
  if (group == groups) return;
  row += rest * most_rows;
  if (row + most_rows < last) last = row + most_rows;
  const int64_t column = int64_t{blockIdx.y} * kFp8Block + threadIdx.x;
  const T* const x = static_cast<const T*>(a.x) + column;
  unsigned most = 0;
  for (int64_t r = row; column < a.n && r < last; ++r) {
    const unsigned size = bits_of(to_float(x[r * a.x_stride])) & 0x7fffffffu;
    if (size < 0x7f800000u && size > most) most = size;
  }
  if (a.tile != Fp8Tile::k128x1) {
    most = warp_most(most);
    auto& warps = shared_memory<WarpMaxima>();
    if (lane_of_thread() == 0) warps.value[warp_of_thread()] = most;
    __syncthreads();
    for (const unsigned other : warps.value) most = other > most ? other : most;
  }
  const Rounding rounding(f, most, a.margin);
  for (int64_t r = row; column < a.n && r < last; ++r)
    a.y[r * a.y_stride + column] = rounding(to_float(x[r * a.x_stride]));
}

}  // namespace

void fp8_maximum(const Fp8Maximum& args, Stream& stream) {
  CudaStream& s = cuda_stream(stream);
  if (!args.accumulate)
    s.succeeded(cudaMemsetAsync(args.maximum, 0, sizeof *args.maximum, s.handle), "fp8_maximum");
  if (args.rows * args.n == 0) return;
  const int64_t wanted = blocks_for(args.rows * args.n, kThreads), most = int64_t{s.multiprocessors} * 8;
  for_type(args.x_type, [&](auto tag) {
    launch(s, "fp8_maximum", {grid(wanted < most ? wanted : most), kThreads},
           maximum_kernel<type_of<decltype(tag)>>, args);
  });
}

void fp8_round(const Fp8Round& args, Stream& stream) {
  CudaStream& s = cuda_stream(stream);
  const Fp8Format f = fp8_format(args.type);
  for_type(args.x_type, [&](auto tag) {
    using T = type_of<decltype(tag)>;
    if (args.tile == Fp8Tile::kTensor)
      return for_each_element(s, "fp8_round", args.rows * args.n, false, TensorRounding<T>{args, f});
    if (args.rows * args.n == 0) return;
    const int64_t of_rows =
        args.tile == Fp8Tile::k1x128 ? args.rows : blocks_for(args.rows, kFp8Block) + args.groups;
    const dim3 tiles(static_cast<unsigned>(of_rows), static_cast<unsigned>(blocks_for(args.n, kFp8Block)));
    launch(s, "fp8_round", {tiles, kFp8Block, sizeof(WarpMaxima)}, tile_kernel<T>, args, f);
  });
}

}  // namespace hawser::kernels::cuda
