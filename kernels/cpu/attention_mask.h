// The tiles of attention forward and backward. A tile is kTile query rows by kTile keys. Scores are stored
// transposed, [key][query]: a vector holds one key's scores for kLanes queries, so the softmax needs no sum
// across lanes, and Q^T is packed once per query tile.
//
// Queries are in panels of kPanel, [panel][row][kPanel]. The data of one panel stays in the L1 cache between
// two products, and lines a power of two apart do not share a cache set.
//
// A query sees a range of keys, so a mask is two numbers per lane. They determine, for each group of kLanes
// queries and block of kRows keys, which parts of a tile are computed. If a range ends before it begins, its
// query sees none of the keys.
#pragma once

#include HWS_SIMD

#include "kernels/include/attention.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kTile = kLanes == 16 ? 128 : 48;  // queries, and keys, in a tile
constexpr int kVecs = kTile / kLanes;           // vectors across the queries of a tile
constexpr int kRows = 4;                        // rows of a product's register block
constexpr int kCols = kLanes == 16 ? 4 : 3;     // vectors across a register block: 32 registers, or 16
constexpr int kPanel = kCols * kLanes;          // queries in a panel, see above
constexpr int kBlocks = kTile / kRows;          // key blocks in a tile
constexpr float kMasked = -3e38f;               // a score that no query sees
constexpr float kLowestMax = -1e29f;  // initial running maximum: far above kMasked in any unit, and finite

inline int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/// Offset of vector c of the queries in panels of `rows` rows.
inline int64_t in_panels(int c, int64_t rows) { return c / kCols * rows * kPanel + c % kCols * kLanes; }

/// The key row in the column of query 0; negative if all keys are in later columns.
inline int64_t key_below(const AttentionShape& s) { return s.q_offset - s.k_offset; }

/// The rows of a query tile: the query and the head in each lane, and the keys lo..hi that it sees.
struct QueryTile {
  int n;           // rows in use; other lanes see nothing
  int vecs;        // vectors in use
  int64_t lo, hi;  // keys that any row sees; none if hi < lo
  bool ascending;  // both ends of the rows' ranges ascend from row to row
  int32_t head[kTile], query[kTile];
  int32_t row_lo[kTile], row_hi[kTile];
  int32_t vec_lo[kVecs], vec_hi[kVecs];    // keys that a vector's work covers
  int32_t full_lo[kVecs], full_hi[kVecs];  // keys that all its lanes see

  bool sees_nothing() const { return hi < lo; }
  bool sees_nothing(int row) const { return row_hi[row] < row_lo[row]; }
};

/// Sets rows row..row + n to queries t0..t0 + n of one head.
HWS_SMALL void set_rows(QueryTile& tile, const AttentionShape& s, int64_t b, int row, int n, int64_t head,
                        int64_t t0) {
  const auto below = static_cast<int32_t>(key_below(s) + t0), last = static_cast<int32_t>(s.seq_k - 1);
  const auto window = static_cast<int32_t>(s.window > 0 ? least(s.window, INT32_MAX) : INT32_MAX);
  for (int i = 0; i < n; ++i) {
    tile.head[row + i] = static_cast<int32_t>(head);
    tile.query[row + i] = static_cast<int32_t>(t0) + i;
    const int32_t lo = below + i >= window ? below + i - window + 1 : 0;
    const int32_t hi = below + i < last ? below + i : last;
    tile.row_lo[row + i] = lo < last + 1 ? lo : last + 1;
    tile.row_hi[row + i] = hi > -1 ? hi : -1;
  }
  if (s.kv_begin == nullptr) return;
  const int32_t* const begin = s.kv_begin + b * s.q_rows() + t0;
  const auto first_column = static_cast<int32_t>(s.k_offset);
  for (int i = 0; i < n; ++i) {
    const int32_t lo = begin[i] - first_column < last + 1 ? begin[i] - first_column : last + 1;
    tile.row_lo[row + i] = lo > tile.row_lo[row + i] ? lo : tile.row_lo[row + i];
  }
}

/// Computes the minimum of n values of lo and the maximum of n values of hi.
template <int n>
inline void join_ranges(const int32_t* lo, const int32_t* hi, int32_t& least_lo, int32_t& greatest_hi) {
  int32_t low = INT32_MAX, high = -1;
  for (int i = 0; i < n; ++i) {
    low = lo[i] < low ? lo[i] : low;
    high = hi[i] > high ? hi[i] : high;
  }
  least_lo = low;
  greatest_hi = high;
}

/// Computes the fields after row_lo and row_hi, which are already set for the first n rows. If the ranges do
/// not ascend from row to row, every vector covers the whole tile, so that the computed parts have no holes.
HWS_SMALL void finish_rows(QueryTile& tile, int n) {
  tile.n = n;
  tile.vecs = (n + kLanes - 1) / kLanes;
  for (int r = n; r < round_up(n, 16); ++r) {
    tile.head[r] = tile.query[r] = 0;
    tile.row_lo[r] = INT32_MAX;
    tile.row_hi[r] = -1;
  }
  int32_t lo = INT32_MAX, hi = -1, descents = 0;
  for (int r = 1; r < n; ++r) {
    descents |= (tile.row_lo[r] < tile.row_lo[r - 1]) | (tile.row_hi[r] < tile.row_hi[r - 1]);
  }
  tile.ascending = descents == 0;
  for (int c = 0; c < tile.vecs; ++c) {
    const int at = c * kLanes;
    int32_t full_lo = -1, full_hi = INT32_MAX;
    for (int r = at; r < at + kLanes; ++r) {
      full_lo = tile.row_lo[r] > full_lo ? tile.row_lo[r] : full_lo;
      full_hi = tile.row_hi[r] < full_hi ? tile.row_hi[r] : full_hi;
    }
    tile.full_lo[c] = full_lo;
    tile.full_hi[c] = full_hi;
    join_ranges<kLanes>(tile.row_lo + at, tile.row_hi + at, tile.vec_lo[c], tile.vec_hi[c]);
    lo = tile.vec_lo[c] < lo ? tile.vec_lo[c] : lo;
    hi = tile.vec_hi[c] > hi ? tile.vec_hi[c] : hi;
  }
  for (int c = 0; c < tile.vecs && !tile.ascending; ++c) {
    tile.vec_lo[c] = lo;
    tile.vec_hi[c] = hi;
  }
  tile.lo = lo;
  tile.hi = hi;
}

/// Rows first..last of a tile, of keys unless stated otherwise; most are multiples of kRows.
struct RowRange {
  int first, last;
};

/// The work of one query tile on the keys [start, start + kTile), in key rows relative to start.
struct KeyTile {
  int64_t start;
  int first, last;  // rows any vector works on, multiples of kRows
  RowRange vec[kVecs];
  bool masked[kVecs];                             // some lane does not see some row of its vector's range
  int block_first[kBlocks], block_last[kBlocks];  // vectors that work on a block of kRows rows
};

/// For each block of kRows keys, the range of queries (of vectors that see the block) that see any of its
/// keys; bounds are even.
struct BlockQueries {
  RowRange block[kBlocks];
};

/// Narrows the ranges below whole vectors only if `narrow`. A product whose depth changes from block to block
/// costs a mispredicted branch. The saved arithmetic outweighs it in fp32, but not in pairs of bf16.
inline void find_queries_of_blocks(BlockQueries& queries, const QueryTile& q, const KeyTile& k, bool narrow) {
  int first = 0, last = 0;
  for (int b = 0; b < k.last / kRows; ++b) {
    queries.block[b] = {k.block_first[b] * kLanes, k.block_last[b] * kLanes};
    if (!narrow || !q.ascending) continue;
    const int64_t key = k.start + b * kRows;
    while (first < q.n && q.row_hi[first] < key) ++first;
    while (last < q.n && q.row_lo[last] < key + kRows) ++last;
    queries.block[b] = {first / 2 * 2, (last + 1) / 2 * 2};
  }
}

HWS_SMALL KeyTile key_tile(const QueryTile& q, int64_t start) {
  KeyTile k;
  k.start = start;
  k.first = kTile;
  k.last = 0;
  for (int b = 0; b < kBlocks; ++b) k.block_first[b] = k.block_last[b] = 0;
  for (int c = 0; c < kVecs; ++c) k.vec[c] = {0, 0};
  for (int c = 0; c < q.vecs; ++c) {
    const int first = static_cast<int>(least(most(q.vec_lo[c] - start, 0), kTile)) / kRows * kRows;
    const int last = static_cast<int>(round_up(most(least(q.vec_hi[c] + 1 - start, kTile), 0), kRows));
    if (last <= first) continue;
    k.vec[c] = {first, last};
    k.masked[c] = q.full_lo[c] > start + first || q.full_hi[c] < start + last - 1;
    k.first = first < k.first ? first : k.first;
    k.last = last > k.last ? last : k.last;
    for (int b = first / kRows; b < last / kRows; ++b) {
      if (k.block_last[b] == 0) k.block_first[b] = c;
      k.block_last[b] = c + 1;
    }
  }
  return k;
}

/// Returns the part of `rows` that vector c of the queries works on.
inline RowRange rows_of_vector(const KeyTile& k, int c, RowRange rows) {
  return {static_cast<int>(most(k.vec[c].first, rows.first)),
          static_cast<int>(least(k.vec[c].last, rows.last))};
}

/// Returns the rows that any vector of a panel works on.
inline RowRange rows_of_panel(const KeyTile& k, const QueryTile& q, int panel) {
  RowRange rows = {kTile, 0};
  for (int c = panel * kCols; c < least((panel + 1) * kCols, q.vecs); ++c) {
    if (k.vec[c].first == k.vec[c].last) continue;
    rows.first = static_cast<int>(least(rows.first, k.vec[c].first));
    rows.last = static_cast<int>(most(rows.last, k.vec[c].last));
  }
  return rows;
}

/// Which lanes of a vector see which rows of a key tile.
struct LaneRange {
  vf lo, hi;
};

inline LaneRange lane_range(const QueryTile& q, const KeyTile& k, int c) {
  float lo[kLanes], hi[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    lo[i] = static_cast<float>(least(most(q.row_lo[c * kLanes + i] - k.start, -1), kTile));
    hi[i] = static_cast<float>(least(most(q.row_hi[c * kLanes + i] - k.start, -1), kTile));
  }
  return {vload(lo), vload(hi)};
}

HWS_INLINE vf mask_scores(const LaneRange& range, int row, vf scores) {
  const vf at = vset(static_cast<float>(row)), masked = vset(kMasked);
  return vselect_le(range.lo, at, vselect_le(at, range.hi, scores, masked), masked);
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
