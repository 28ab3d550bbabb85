// Sums over rows and of two buffers. The order of addition does not depend on the number of workers.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kRowBlock = 128;  ///< rows whose sum column_sum computes before it adds it to the total
constexpr int64_t kAddGrain = 16384;

/// The blocks of rows in a call, which may begin and end inside a block: whether row r begins a block, where
/// the block of row r ends, and whether the block that ends before row r is complete.
struct RowBlocks {
  int64_t rows, first;
  bool last;

  explicit RowBlocks(const ColumnSum& args) : rows(args.rows), first(args.first), last(args.ends) {}
  bool at_bound(int64_t r) const { return (first + r) % kRowBlock == 0; }
  int64_t end(int64_t r) const {
    const int64_t bound = r + kRowBlock - (first + r) % kRowBlock;
    return bound < rows ? bound : rows;
  }
  bool is_complete(int64_t r) const { return at_bound(r) || (last && r == rows); }
};

/// Sums one vector of columns, n of which exist.
template <class T>
HWS_INLINE void sum_columns(float* out, float* open, const T* dy, const RowBlocks& blocks, int64_t stride,
                            int n, bool accumulate) {
  vf total = accumulate ? vload_n(out, n) : vzero();
  for (int64_t r0 = 0; r0 < blocks.rows; r0 = blocks.end(r0)) {
    const int64_t end = blocks.end(r0);
    vf sum = blocks.at_bound(r0) ? vzero() : vload_n(open, n);
    if (n == kLanes) {
      for (int64_t r = r0; r < end; ++r) sum = vadd(sum, load(dy + r * stride));
    } else {
      for (int64_t r = r0; r < end; ++r) sum = vadd(sum, load_n(dy + r * stride, n));
    }
    if (blocks.is_complete(end)) {
      total = vadd(total, sum);
    } else {
      vstore_n(open, sum, n);
    }
  }
  vstore_n(out, total, n);
}

/// Sums kVectors complete vectors of columns at once, so that every cache line that is read is used
/// completely.
template <int kVectors, class T>
HWS_INLINE void sum_column_group(float* out, float* open, const T* dy, const RowBlocks& blocks,
                                 int64_t stride, bool accumulate) {
  vf total[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) total[v] = accumulate ? vload(out + v * kLanes) : vzero();
  for (int64_t r0 = 0; r0 < blocks.rows; r0 = blocks.end(r0)) {
    const int64_t end = blocks.end(r0);
    const bool begins = blocks.at_bound(r0), complete = blocks.is_complete(end);
    vf sum[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[v] = begins ? vzero() : vload(open + v * kLanes);
    for (int64_t r = r0; r < end; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[v] = vadd(sum[v], load(dy + r * stride + v * kLanes));
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if (complete) {
        total[v] = vadd(total[v], sum[v]);
      } else {
        vstore(open + v * kLanes, sum[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) vstore(out + v * kLanes, total[v]);
}

template <class T>
void column_sum_typed(const ColumnSum& args, Stream& stream) {
  constexpr int kVectors = 4;
  constexpr int64_t kGroup = kVectors * kLanes;
  const T* dy = static_cast<const T*>(args.dy);
  const RowBlocks blocks(args);
  parallel(stream, (args.n + kGroup - 1) / kGroup, [&](int64_t task, int32_t) {
    const int64_t begin = task * kGroup;
    const auto open = [&](int64_t column) { return args.open == nullptr ? nullptr : args.open + column; };
    if (begin + kGroup <= args.n) {
      sum_column_group<kVectors>(args.dbias + begin, open(begin), dy + begin, blocks, args.stride,
                                 args.accumulate);
      return;
    }
    for (int64_t j = begin; j < args.n; j += kLanes) {
      const int n = args.n - j < kLanes ? static_cast<int>(args.n - j) : kLanes;
      sum_columns(args.dbias + j, open(j), dy + j, blocks, args.stride, n, args.accumulate);
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
