// Composes keys and values of latent attention from the part of each head and the part that all heads share,
// and splits their gradients again.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

/// Copies elements by their size; their type does not matter.
struct Elements {
  int64_t bytes;

  void copy(void* to, int64_t at, const void* from, int64_t from_at, int64_t n) const {
    __builtin_memcpy(static_cast<char*>(to) + at * bytes, static_cast<const char*>(from) + from_at * bytes,
                     static_cast<size_t>(n * bytes));
  }
};

int64_t row_grain(const LatentShape& s) {
  constexpr int64_t kGrain = 16384;  // approximate number of elements in a task
  const int64_t row = s.heads * (s.up_head() + s.shared);
  return row > 0 && row < kGrain ? kGrain / row : 1;
}

/// Computes d_shared of a row: the sum over the heads of the gradients of their keys.
template <class T>
void sum_heads(const LatentShape& s, T* d_shared, const T* keys) {
  for (int64_t j = 0; j < s.shared; j += kLanes) {
    const int lanes = static_cast<int>(s.shared - j < kLanes ? s.shared - j : kLanes);
    vf sum = vzero();
    for (int64_t h = 0; h < s.heads; ++h) sum = vadd(sum, load_n(keys + h * s.key_head() + s.own + j, lanes));
    store_n(d_shared + j, sum, lanes);
  }
}

}  // namespace

void latent_keys(const LatentKeys& args, Stream& stream) {
  const LatentShape& s = args.s;
  const Elements of{dtype_bytes(s.type)};
  parallel_ranges(stream, s.rows, row_grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * s.heads; i < end * s.heads; ++i) {
      const int64_t row = i / s.heads, h = i % s.heads, up = i * s.up_head();
      const int64_t key = row * s.kv_stride + h * s.key_head();
      of.copy(args.k, key, args.up, up, s.own);
      of.copy(args.k, key + s.own, args.shared, row * s.shared_stride, s.shared);
      of.copy(args.v, row * s.kv_stride + h * s.value, args.up, up + s.own, s.value);
    }
  });
}

void latent_keys_backward(const LatentKeysBackward& args, Stream& stream) {
  const LatentShape& s = args.s;
  const Elements of{dtype_bytes(s.type)};
  parallel_ranges(stream, s.rows, row_grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t keys = row * s.kv_stride, shared = row * s.shared_stride;
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t up = (row * s.heads + h) * s.up_head();
        of.copy(args.d_up, up, args.dk, keys + h * s.key_head(), s.own);
        of.copy(args.d_up, up + s.own, args.dv, keys + h * s.value, s.value);
      }
      with_element(s.type, [&](auto element) {
        using E = decltype(element);
        sum_heads(s, static_cast<E*>(args.d_shared) + shared, static_cast<const E*>(args.dk) + keys);
      });
    }
  });
}

}  // namespace hawser::kernels::baseline
