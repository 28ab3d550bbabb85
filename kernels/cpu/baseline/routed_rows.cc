// Sorts choices by expert, and copies rows to the order of experts and back.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

constexpr int64_t kGrain = 16384;  // approximate number of elements in a task

vf rounded_to(DType type, vf x) {
  return with_element(type, [&](auto element) { return through<decltype(element)>(x); });
}

int64_t row_grain(int64_t d) { return d < kGrain ? kGrain / d : 1; }

}  // namespace

/// A counting sort in two passes. One worker does it, because it takes a fraction of a percent of a layer's
/// time.
void group_rows(const GroupRows& args, Stream& stream) {
  parallel(stream, 1, [&](int64_t, int32_t) {
    const int64_t choices = args.rows * args.top_k;
    int32_t* const next = args.workspace;
    for (int64_t e = 0; e < args.experts; ++e) next[e] = 0;
    for (int64_t c = 0; c < choices; ++c) ++next[args.choice[c]];
    args.offsets[0] = 0;
    for (int64_t e = 0; e < args.experts; ++e) {
      const int64_t kept = args.capacity > 0 && next[e] > args.capacity ? args.capacity : next[e];
      next[e] = args.offsets[e];
      args.offsets[e + 1] = args.offsets[e] + static_cast<int32_t>(kept);
    }
    for (int64_t c = 0; c < choices; ++c) {
      const int32_t e = args.choice[c], place = next[e];
      const bool kept = place < args.offsets[e + 1];
      args.place[c] = kept ? place : -1;
      if (!kept) continue;
      args.order[place] = static_cast<int32_t>(c);
      ++next[e];
    }
  });
}

void gather_rows(const GatherRows& args, Stream& stream) {
  if (args.rows <= 0 || args.d <= 0) return;
  const int64_t bytes = args.d * dtype_bytes(args.type);
  const int64_t rows = args.end != nullptr ? *args.end : args.rows;
  parallel_ranges(stream, rows, row_grain(args.d), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      if (args.order[p] < 0) continue;
      const int64_t row = args.order[p] / args.top_k;
      __builtin_memcpy(static_cast<char*>(args.y) + p * bytes, static_cast<const char*>(args.x) + row * bytes,
                       static_cast<size_t>(bytes));
    }
  });
}

void combine_rows(const CombineRows& args, Stream& stream) {
  if (args.rows <= 0 || args.d <= 0) return;
  parallel_ranges(stream, args.rows, row_grain(args.d * args.top_k), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* const y = args.y + row * args.d;
      const int32_t* const place = args.place + row * args.top_k;
      for (int64_t j = 0; j < args.d; j += kLanes) {
        const int lanes = static_cast<int>(args.d - j < kLanes ? args.d - j : kLanes);
        vf sum = vzero();
        for (int64_t i = 0; i < args.top_k; ++i) {
          if (place[i] < 0) continue;
          const vf x = vload_n(args.x + place[i] * args.d + j, lanes);
          sum = vadd(sum, rounded_to(args.round_to, x));
        }
        vstore_n(y + j, args.accumulate ? vadd(vload_n(y + j, lanes), sum) : sum, lanes);
      }
    }
  });
}

}  // namespace hawser::kernels::baseline
