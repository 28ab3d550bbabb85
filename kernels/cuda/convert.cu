// Conversions between f32, bf16 and f16, and the sum of two arrays.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

template <class To, class From>
struct Conversion {
  Convert a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = a.rows == 1 ? 0 : i / a.n, column = i - row * a.n;
    float x[N];
    load<N>(x, static_cast<const From*>(a.x) + row * a.x_stride + column);
    store<N>(static_cast<To*>(a.y) + row * a.y_stride + column, x);
  }
};

/// True if every row is aligned for wide accesses.
bool has_wide_rows(const Convert& a) {
  return all_wide({a.y, a.x}) &&
         (a.rows == 1 || (a.n % kWide == 0 && a.y_stride % kWide == 0 && a.x_stride % kWide == 0));
}

/// y = round(y + scale x), or y = round(scale x).
template <class To>
struct Scaling {
  Convert a;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = a.rows == 1 ? 0 : i / a.n, column = i - row * a.n;
    To* const to = static_cast<To*>(a.y) + row * a.y_stride + column;
    float x[N], y[N] = {};
    load<N>(x, static_cast<const float*>(a.x) + row * a.x_stride + column);
    if (a.accumulate) load<N>(y, to);
#pragma unroll
    for (int k = 0; k < N; ++k) y[k] = a.accumulate ? fmaf(a.scale, x[k], y[k]) : a.scale * x[k];
    store<N>(to, y);
  }
};

/// Rounds rows of f32, which may have gaps between them, to dense bf16.
struct Rounding {
  bf16* out;
  const float* in;
  int64_t columns, ld;

  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t row = i / columns;
    float x[N];
    load<N>(x, in + row * ld + (i - row * columns));
    store<N>(out + i, x);
  }
};

struct Sum {
  Add a;

  template <int N>
  __device__ void at(int64_t i) const {
    float x[N], y[N];
    load<N>(x, a.a + i);
    load<N>(y, a.b + i);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] += y[k];
    store<N>(a.y + i, x);
  }
};

}  // namespace

void convert(const Convert& args, Stream& stream) {
  if (args.accumulate || args.scale != 1)
    return for_type(args.y_type, [&](auto to) {
      for_each_element(cuda_stream(stream), "convert", args.rows * args.n, has_wide_rows(args),
                       Scaling<type_of<decltype(to)>>{args});
    });
  for_type_or_half(args.x_type, [&](auto from) {
    for_type_or_half(args.y_type, [&](auto to) {
      for_each_element(cuda_stream(stream), "convert", args.rows * args.n, has_wide_rows(args),
                       Conversion<type_of<decltype(to)>, type_of<decltype(from)>>{args});
    });
  });
}

void round_operand(void* out, const float* in, int64_t rows, int64_t columns, int64_t ld,
                   CudaStream& stream) {
  const bool wide = columns % kWide == 0 && all_wide({out}) && wide_rows(in, ld, DType::kF32);
  for_each_element(stream, "matmul", rows * columns, wide,
                   Rounding{static_cast<bf16*>(out), in, columns, ld});
}

void add(const Add& args, Stream& stream) {
  for_each_element(cuda_stream(stream), "add", args.n, all_wide({args.y, args.a, args.b}), Sum{args});
}

}  // namespace hawser::kernels::cuda
