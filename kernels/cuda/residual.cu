// The residual stream, x + dropout(branch), and its backward, in one pass; masks are computed in the kernel
// that uses them.
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

/// Multiplies x, elements i .. i + N - 1 of rows of d elements, by their dropout multipliers.
template <int N, class Args>
__device__ __forceinline__ void drop(float* x, const Args& a, int64_t i) {
  if (a.dropout.p == 0.0f) return;  // skips the division
  const int64_t row = i / a.d;
  drop_features<N>(x, a.dropout, a.seq, row, i - row * a.d);
}

template <class X, class T>
struct Forward {
  ResidualForward a;

  template <int N>
  __device__ void at(int64_t i) const {
    float x[N], branch[N];
    load<N>(x, static_cast<const X*>(a.x) + i);
    if (a.branch == nullptr) {
      drop<N>(x, a, i);
    } else {
      load<N>(branch, static_cast<const T*>(a.branch) + i);
      drop<N>(branch, a, i);
#pragma unroll
      for (int k = 0; k < N; ++k) x[k] += branch[k];
    }
    store<N>(static_cast<X*>(a.y) + i, x);
  }
};

template <class T>
struct Backward {
  ResidualBackward a;

  template <int N>
  __device__ void at(int64_t i) const {
    float dy[N];
    load<N>(dy, a.dy + i);
    drop<N>(dy, a, i);
    store<N>(static_cast<T*>(a.dbranch) + i, dy);
  }
};

/// True if no chunk spans two rows. Masks are computed for features of one row, so a chunk must not.
template <class Args>
bool rows_in_chunks(const Args& a) {
  return a.dropout.p == 0.0f || a.d % kWide == 0;
}

}  // namespace

void residual_forward(const ResidualForward& args, Stream& stream) {
  const bool wide = rows_in_chunks(args) && all_wide({args.y, args.x, args.branch});
  for_type(args.type, [&](auto x) {
    for_type(args.branch_type, [&](auto branch) {
      for_each_element(cuda_stream(stream), "residual_forward", args.rows * args.d, wide,
                       Forward<type_of<decltype(x)>, type_of<decltype(branch)>>{args});
    });
  });
}

void residual_backward(const ResidualBackward& args, Stream& stream) {
  const bool wide = rows_in_chunks(args) && all_wide({args.dbranch, args.dy});
  for_type(args.branch_type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "residual_backward", args.rows * args.d, wide,
                     Backward<type_of<decltype(tag)>>{args});
  });
}

}  // namespace hawser::kernels::cuda
