// Sums over rows and of two buffers. The order of addition does not depend on the number of workers.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kRowBlock = 128;  ///< rows whose sum column_sum computes before it adds it to the total
constexpr int64_t kAddGrain = 16384;

/// Sums one vector of columns, n of which exist.
template <class T>
HWS_INLINE void sum_columns(float* out, const T* dy, int64_t rows, int64_t stride, int n, bool accumulate) {
  vf total = accumulate ? vload_n(out, n) : vzero();
  for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
    const int64_t end = r0 + kRowBlock < rows ? r0 + kRowBlock : rows;
    vf sum = vzero();
    if (n == kLanes) {
      for (int64_t r = r0; r < end; ++r) sum = vadd(sum, load(dy + r * stride));
    } else {
      for (int64_t r = r0; r < end; ++r) sum = vadd(sum, load_n(dy + r * stride, n));
    }
    total = vadd(total, sum);
  }
  vstore_n(out, total, n);
}

/// Sums kVectors complete vectors of columns at once, so that every cache line that is read is used
/// completely.
template <int kVectors, class T>
HWS_INLINE void sum_column_group(float* out, const T* dy, int64_t rows, int64_t stride, bool accumulate) {
  vf total[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) total[v] = accumulate ? vload(out + v * kLanes) : vzero();
  for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
    const int64_t end = r0 + kRowBlock < rows ? r0 + kRowBlock : rows;
    vf sum[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[v] = vzero();
    for (int64_t r = r0; r < end; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[v] = vadd(sum[v], load(dy + r * stride + v * kLanes));
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) total[v] = vadd(total[v], sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) vstore(out + v * kLanes, total[v]);
}

template <class T>
void column_sum_typed(const ColumnSum& args, Stream& stream) {
  constexpr int kVectors = 4;
  constexpr int64_t kGroup = kVectors * kLanes;
  const T* dy = static_cast<const T*>(args.dy);
  parallel(stream, (args.n + kGroup - 1) / kGroup, [&](int64_t task, int32_t) {
    const int64_t begin = task * kGroup;
    if (begin + kGroup <= args.n) {
      sum_column_group<kVectors>(args.dbias + begin, dy + begin, args.rows, args.stride, args.accumulate);
      return;
    }
    for (int64_t j = begin; j < args.n; j += kLanes) {
      const int n = args.n - j < kLanes ? static_cast<int>(args.n - j) : kLanes;
      sum_columns(args.dbias + j, dy + j, args.rows, args.stride, n, args.accumulate);
    }
  });
}

}  // namespace

void column_sum(const ColumnSum& args, Stream& stream) {
  with_element(args.type, [&](auto element) { column_sum_typed<decltype(element)>(args, stream); });
}

int64_t column_sum_workspace_bytes(const ColumnSum&, int32_t) { return 0; }

void add(const Add& args, Stream& stream) {
  parallel_ranges(stream, args.n, kAddGrain, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) vstore(args.y + i, vadd(vload(args.a + i), vload(args.b + i)));
    if (i < end) {
      const int n = static_cast<int>(end - i);
      vstore_n(args.y + i, vadd(vload_n(args.a + i, n), vload_n(args.b + i, n)), n);
    }
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
