// Rotary embedding in place: a thread rotates some consecutive elements of the first half of a head with
// their partners.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

/// kNeighbours: adjacent elements are partners (interleaved); N is 1 then.
template <class T, bool kNeighbours>
struct Turn {
  Rope a;

  /// i counts the elements of the first halves of all heads of all rows.
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t half = a.d / 2, head = i / half, j = i - head * half, row = head / a.heads;
    const int64_t at = row * a.stride + (head - row * a.heads) * a.between_heads(),
                  apart = kNeighbours ? 1 : half;
    T* x = static_cast<T*>(a.x) + at + (kNeighbours ? 2 * j : j);
    float low[N], high[N], angle[2 * N];
    load<N>(low, x);
    load<N>(high, x + apart);
    load<2 * N>(angle, a.cos_sin + (a.positions[row] * half + j) * 2);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float cosine = angle[2 * k], sine = a.inverse ? -angle[2 * k + 1] : angle[2 * k + 1];
      const float first = low[k] * cosine - high[k] * sine;
      high[k] = high[k] * cosine + low[k] * sine;
      low[k] = first;
    }
    store<N>(x, low);
    store<N>(x + apart, high);
  }
};

}  // namespace

void rope(const Rope& args, Stream& stream) {
  const int64_t half = args.d / 2;
  const bool wide = half % kWide == 0 && args.between_heads() % kWide == 0 && all_wide({args.cos_sin}) &&
                    wide_rows(args.x, args.stride, args.type);
  const int64_t n = args.rows * args.heads * half;
  for_type(args.type, [&](auto tag) {
    using T = type_of<decltype(tag)>;
    if (args.interleaved) {
      for_each_element(cuda_stream(stream), "rope", n, false, Turn<T, true>{args});
    } else {
      for_each_element(cuda_stream(stream), "rope", n, wide, Turn<T, false>{args});
    }
  });
}

}  // namespace hawser::kernels::cuda
