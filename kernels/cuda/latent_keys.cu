// Keys and values of latent attention. Forward: a thread moves a few elements of a head. Backward: the
// gradient of the shared part is a sum over all heads, and one thread computes each of its elements.
#include "kernels/cuda/elements.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/types.h"

namespace hawser::kernels::cuda {
namespace {

/// Writes the elements of keys and values of all heads and rows.
template <class T>
struct Join {
  LatentKeys a;

  template <int N>
  __device__ void at(int64_t i) const {
    const LatentShape& s = a.s;
    const int64_t both = s.key_head() + s.value, head = i / both, j = i - head * both, row = head / s.heads;
    const int64_t h = head - row * s.heads;
    const T* const up = static_cast<const T*>(a.up) + head * s.up_head();
    float x[N];
    if (j < s.key_head()) {
      load<N>(x, j < s.own ? up + j : static_cast<const T*>(a.shared) + row * s.shared_stride + j - s.own);
      store<N>(static_cast<T*>(a.k) + row * s.kv_stride + h * s.key_head() + j, x);
    } else {
      load<N>(x, up + s.own + j - s.key_head());
      store<N>(static_cast<T*>(a.v) + row * s.kv_stride + h * s.value + j - s.key_head(), x);
    }
  }
};

/// Writes the gradients of a row: the elements of `up`, then the shared elements.
template <class T>
struct Part {
  LatentKeysBackward a;

  template <int N>
  __device__ void at(int64_t i) const {
    const LatentShape& s = a.s;
    const int64_t of_heads = s.heads * s.up_head(), all = of_heads + s.shared, row = i / all,
                  e = i - row * all;
    const T* const keys = static_cast<const T*>(a.dk) + row * s.kv_stride;
    float x[N];
    if (e < of_heads) {
      const int64_t h = e / s.up_head(), j = e - h * s.up_head();
      load<N>(x, j < s.own ? keys + h * s.key_head() + j
                           : static_cast<const T*>(a.dv) + row * s.kv_stride + h * s.value + j - s.own);
      store<N>(static_cast<T*>(a.d_up) + row * of_heads + e, x);
      return;
    }
    float sum[N] = {};
    for (int64_t h = 0; h < s.heads; ++h) {
      load<N>(x, keys + h * s.key_head() + s.own + e - of_heads);
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] += x[n];
    }
    store<N>(static_cast<T*>(a.d_shared) + row * s.shared_stride + e - of_heads, sum);
  }
};

bool is_wide(const LatentShape& s) {
  return s.own % kWide == 0 && s.shared % kWide == 0 && s.value % kWide == 0;
}

}  // namespace

void latent_keys(const LatentKeys& args, Stream& stream) {
  const LatentShape& s = args.s;
  const bool wide = is_wide(s) && all_wide({args.up}) && wide_rows(args.k, s.kv_stride, s.type) &&
                    wide_rows(args.v, s.kv_stride, s.type) && wide_rows(args.shared, s.shared_stride, s.type);
  for_type(s.type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "latent_keys", s.rows * s.heads * (s.key_head() + s.value), wide,
                     Join<type_of<decltype(tag)>>{args});
  });
}

void latent_keys_backward(const LatentKeysBackward& args, Stream& stream) {
  const LatentShape& s = args.s;
  const bool wide = is_wide(s) && all_wide({args.d_up}) && wide_rows(args.dk, s.kv_stride, s.type) &&
                    wide_rows(args.dv, s.kv_stride, s.type) &&
                    wide_rows(args.d_shared, s.shared_stride, s.type);
  for_type(s.type, [&](auto tag) {
    for_each_element(cuda_stream(stream), "latent_keys_backward", s.rows * (s.heads * s.up_head() + s.shared),
                     wide, Part<type_of<decltype(tag)>>{args});
  });
}

}  // namespace hawser::kernels::cuda
