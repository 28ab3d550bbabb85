// Rotary embedding, in place.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kAngles = 64;  ///< number of angles whose cosines and sines are separated at once

template <class T>
HWS_INLINE void rotate(T* low, T* high, vf cosine, vf sine, int n) {
  const vf a = load_n(low, n), b = load_n(high, n);
  store_n(low, vfnma(b, sine, vmul(a, cosine)), n);
  store_n(high, vfma(a, sine, vmul(b, cosine)), n);
}

/// Rotates all heads of one row.
template <class T>
void rope_row(const Rope& args, T* x, const float* cos_sin) {
  const int64_t half = args.d / 2;
  const float sign = args.inverse ? -1.0f : 1.0f;
  float cosine[kAngles], sine[kAngles];
  for (int64_t j0 = 0; j0 < half; j0 += kAngles) {
    const int64_t angles = half - j0 < kAngles ? half - j0 : kAngles;
    for (int64_t j = 0; j < angles; ++j) {
      cosine[j] = cos_sin[2 * (j0 + j)];
      sine[j] = sign * cos_sin[2 * (j0 + j) + 1];
    }
    for (int64_t h = 0; h < args.heads; ++h) {
      T* head = x + h * (args.head_stride > 0 ? args.head_stride : args.d) + j0;
      for (int64_t j = 0; j < angles; j += kLanes) {
        const int n = angles - j < kLanes ? static_cast<int>(angles - j) : kLanes;
        rotate(head + j, head + half + j, vload_n(cosine + j, n), vload_n(sine + j, n), n);
      }
    }
  }
}

template <class T>
void rope_typed(const Rope& args, Stream& stream) {
  const int64_t row = args.heads * args.d, grain = row > 0 && row < 16384 ? 16384 / row : 1;
  parallel_ranges(stream, args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      rope_row(args, static_cast<T*>(args.x) + r * args.stride, args.cos_sin + args.positions[r] * args.d);
    }
  });
}

}  // namespace

void rope(const Rope& args, Stream& stream) {
  if (args.interleaved) return baseline::rope_neighbours(args, stream);
  with_element(args.type, [&](auto element) { rope_typed<decltype(element)>(args, stream); });
}

}  // namespace hawser::kernels::HWS_LEVEL
