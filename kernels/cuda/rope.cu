// Rotary embedding in place: a thread rotates a run of elements in the first half of a head with their
// partners.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

template <class T>
struct Turn {
  Rope a;

  /// i counts the first halves of all heads of all rows.
  template <int N>
  __device__ void at(int64_t i) const {
    const int64_t half = a.d / 2, head = i / half, j = i - head * half, row = head / a.heads;
    T* x = static_cast<T*>(a.x) + row * a.stride + (head - row * a.heads) * a.d + j;
    float low[N], high[N], angle[2 * N];
    load<N>(low, x);
    load<N>(high, x + half);
    load<2 * N>(angle, a.cos_sin + (a.positions[row] * half + j) * 2);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float cosine = angle[2 * k], sine = a.inverse ? -angle[2 * k + 1] : angle[2 * k + 1];
      const float first = low[k] * cosine - high[k] * sine;
      high[k] = high[k] * cosine + low[k] * sine;
      low[k] = first;
    }
    store<N>(x, low);
    store<N>(x + half, high);
  }
};

}  // namespace

void rope(const Rope& args, Stream& stream) {
  const int64_t half = args.d / 2;
  const bool wide =
      half % kWide == 0 && all_wide({args.cos_sin}) && wide_rows(args.x, args.stride, args.type);
  for_type(args.type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "rope", args.rows * args.heads * half, wide,
                     Turn<type_of<decltype(tag)>>{args});
  });
}

}  // namespace hawser::kernels::cuda
