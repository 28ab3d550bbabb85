// The largest magnitude of a tensor, and its rounding to numbers of fp8, by the formula of the CPU.
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

template <class T>
struct Rounding {
  Fp8Round a;
  Fp8Format f;

  template <int N>
  __device__ void at(int64_t i) const {
    const int e = fp8_exponent(f, bits_of(*a.maximum), a.margin), shift = 23 - f.fraction_bits;
    const unsigned largest =
        static_cast<unsigned>(e == f.largest_exponent ? f.code_at_largest : f.largest_code);
    const float down = float_of(static_cast<unsigned>(254 - e) << 23),
                up = float_of(static_cast<unsigned>(e) << 23);
    const float most = float_of((largest << shift) + (static_cast<unsigned>(127 - f.bias) << 23));
    const unsigned least = static_cast<unsigned>(128 - f.bias) << 23;
    const int64_t row = i / a.n, column = i - row * a.n;
    if (a.end != nullptr && row >= *a.end) return;
    const float x = to_float(static_cast<const T*>(a.x)[row * a.x_stride + column]);
    const float size = float_of(bits_of(x) & 0x7fffffffu), scaled = size * down < most ? size * down : most;
    const unsigned own = bits_of(scaled) & 0x7f800000u;
    const float unit = float_of((own > least ? own : least) + (static_cast<unsigned>(shift) << 23));
    unsigned bits = bits_of((scaled + unit - unit) * up) | (bits_of(x) & 0x80000000u);
    if (bits_of(size) > 0x7f7fffffu) bits = 0x7fc00000u;
    a.y[row * a.y_stride + column] = static_cast<uint16_t>(bits >> 16);
  }
};

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
  for_type(args.x_type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "fp8_round", args.rows * args.n, false,
                     Rounding<type_of<decltype(tag)>>{args, fp8_format(args.type)});
  });
}

}  // namespace hawser::kernels::cuda
