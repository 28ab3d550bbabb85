// Rotary embedding of pairs of adjacent elements, in place.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

template <class T>
void turn(const Rope& args, Stream& stream) {
  constexpr int kPairs = kLanes / 2;
  const int64_t half = args.d / 2, row = args.heads * args.d,
                grain = row > 0 && row < 16384 ? 16384 / row : 1;
  const float sign = args.inverse ? -1.0f : 1.0f;
  parallel_ranges(stream, args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * args.heads; i < end * args.heads; ++i) {
      const float* const angle = args.cos_sin + args.positions[i / args.heads] * args.d;
      T* const head =
          static_cast<T*>(args.x) + i / args.heads * args.stride + i % args.heads * args.between_heads();
      for (int64_t j = 0; j < half; j += kPairs) {
        const int n = static_cast<int>(half - j < kPairs ? half - j : kPairs);
        float x[kLanes];
        vstore(x, load_n(head + 2 * j, 2 * n));
        for (int k = 0; k < n; ++k) {
          const float cosine = angle[2 * (j + k)], sine = sign * angle[2 * (j + k) + 1], first = x[2 * k];
          x[2 * k] = first * cosine - x[2 * k + 1] * sine;
          x[2 * k + 1] = x[2 * k + 1] * cosine + first * sine;
        }
        store_n(head + 2 * j, vload(x), 2 * n);
      }
    }
  });
}

}  // namespace

void rope_neighbours(const Rope& args, Stream& stream) {
  with_element(args.type, [&](auto element) { turn<decltype(element)>(args, stream); });
}

}  // namespace hawser::kernels::baseline
