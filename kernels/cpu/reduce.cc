// Sums over rows and of two buffers. The order of addition does not depend on the number of workers.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kRowBlock = 128;   ///< rows whose sum column_sum computes before it adds it to the total
constexpr int64_t kColumns = 192;    ///< most columns in one task
constexpr int64_t kFewColumns = 64;  ///< fewest columns in one task: whole cache lines
constexpr int64_t kRowsAtOnce = 4, kRowsAhead = 8;
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

/// Adds dy[r * stride + j] to sums[j] for rows r in [begin, end), in ascending order. Several rows are read
/// at once because several streams of memory are faster than one. The next rows are prefetched because they
/// are far apart.
template <class T>
void add_rows(float* sums, const T* dy, int64_t stride, int64_t columns, int64_t begin, int64_t end) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t whole = columns / kLanes * kLanes, rest = columns - whole;
  int64_t r = begin;
  for (; r + kRowsAtOnce <= end; r += kRowsAtOnce) {
    const T* const rows = dy + r * stride;
    for (int64_t j = 0; j < whole; j += kLanes) {
      if ((j & (kLine - 1)) == 0) {
#pragma GCC unroll 4
        for (int i = 0; i < kRowsAtOnce; ++i) __builtin_prefetch(rows + (kRowsAhead + i) * stride + j);
      }
      vf sum = vload(sums + j);
#pragma GCC unroll 4
      for (int i = 0; i < kRowsAtOnce; ++i) sum = vadd(sum, load(rows + i * stride + j));
      vstore(sums + j, sum);
    }
  }
  for (; r < end; ++r) {
    for (int64_t j = 0; j < whole; j += kLanes)
      vstore(sums + j, vadd(vload(sums + j), load(dy + r * stride + j)));
  }
  vf sum = vload_n(sums + whole, static_cast<int>(rest));
  for (r = begin; r < end && rest > 0; ++r)
    sum = vadd(sum, load_n(dy + r * stride + whole, static_cast<int>(rest)));
  vstore_n(sums + whole, sum, static_cast<int>(rest));
}

/// Sums columns [first, last), at most kColumns of them.
template <class T>
void sum_columns(const ColumnSum& args, int64_t first, int64_t last) {
  float sums[kColumns] = {};
  float *const out = args.dbias + first, *const open = args.open == nullptr ? nullptr : args.open + first;
  const int64_t columns = last - first;
  const RowBlocks blocks(args);
  for (int64_t j = 0; j < columns && !args.accumulate; ++j) out[j] = 0;
  for (int64_t r0 = 0; r0 < blocks.rows; r0 = blocks.end(r0)) {
    const int64_t end = blocks.end(r0);
    for (int64_t j = 0; j < columns; ++j) sums[j] = blocks.at_bound(r0) ? 0.0f : open[j];
    add_rows(sums, static_cast<const T*>(args.dy) + first, args.stride, columns, r0, end);
    const bool complete = blocks.is_complete(end);
    for (int64_t j = 0; j < columns; ++j) complete ? out[j] += sums[j] : open[j] = sums[j];
  }
}

/// Returns the columns of a task: as many as a task may have, or fewer so that all workers have a task.
int64_t columns_of_task(int64_t columns, int64_t workers) {
  const int64_t share = columns / (workers > 1 ? workers : 1) / kFewColumns * kFewColumns;
  return share >= kColumns ? kColumns : share > kFewColumns ? share : kFewColumns;
}

}  // namespace

void column_sum(const ColumnSum& args, Stream& stream) {
  with_element(args.type, [&](auto element) {
    parallel_ranges(stream, args.n, columns_of_task(args.n, stream.num_workers),
                    [&](int64_t first, int64_t last) { sum_columns<decltype(element)>(args, first, last); });
  });
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
