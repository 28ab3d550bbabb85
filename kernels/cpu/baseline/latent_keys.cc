// Keys and values of latent attention from what each head has and what all share, and back.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

int64_t row_grain(const LatentShape& s) {
  constexpr int64_t kGrain = 16384;  // elements of a task, about
  const int64_t row = s.heads * (s.up_head() + s.shared);
  return row > 0 && row < kGrain ? kGrain / row : 1;
}

template <class T>
void copy(T* to, const T* from, int64_t n) {
  __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
}

template <class T>
void join(const LatentKeys& a, Stream& stream) {
  const LatentShape& s = a.s;
  parallel_ranges(stream, s.rows, row_grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * s.heads; i < end * s.heads; ++i) {
      const int64_t row = i / s.heads, h = i % s.heads;
      const T* const up = static_cast<const T*>(a.up) + i * s.up_head();
      T* const key = static_cast<T*>(a.k) + row * s.kv_stride + h * s.key_head();
      copy(key, up, s.own);
      copy(key + s.own, static_cast<const T*>(a.shared) + row * s.shared_stride, s.shared);
      copy(static_cast<T*>(a.v) + row * s.kv_stride + h * s.value, up + s.own, s.value);
    }
  });
}

template <class T>
void part(const LatentKeysBackward& a, Stream& stream) {
  const LatentShape& s = a.s;
  parallel_ranges(stream, s.rows, row_grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const keys = static_cast<const T*>(a.dk) + row * s.kv_stride;
      for (int64_t h = 0; h < s.heads; ++h) {
        T* const up = static_cast<T*>(a.d_up) + (row * s.heads + h) * s.up_head();
        copy(up, keys + h * s.key_head(), s.own);
        copy(up + s.own, static_cast<const T*>(a.dv) + row * s.kv_stride + h * s.value, s.value);
      }
      for (int64_t j = 0; j < s.shared; j += kLanes) {
        const int lanes = static_cast<int>(s.shared - j < kLanes ? s.shared - j : kLanes);
        vf sum = vzero();
        for (int64_t h = 0; h < s.heads; ++h)
          sum = vadd(sum, load_n(keys + h * s.key_head() + s.own + j, lanes));
        store_n(static_cast<T*>(a.d_shared) + row * s.shared_stride + j, sum, lanes);
      }
    }
  });
}

}  // namespace

void latent_keys(const LatentKeys& args, Stream& stream) {
  args.s.type == DType::kBf16 ? join<uint16_t>(args, stream) : join<float>(args, stream);
}

void latent_keys_backward(const LatentKeysBackward& args, Stream& stream) {
  args.s.type == DType::kBf16 ? part<uint16_t>(args, stream) : part<float>(args, stream);
}

}  // namespace hawser::kernels::baseline
