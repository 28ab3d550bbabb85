// The tiles that attention forward and backward work on. A tile is kTile query rows by kTile keys. Scores are
// kept transposed, [key][query]: then a vector holds one key's scores for kLanes queries, so the softmax
// needs no sum across lanes, Q^T is packed once per query tile, and K, V and the probabilities are read as
// they lie in every product. Tiles are fp32 whatever the storage type, with rows padded to kLanes elements
// and zeros in the padding.
//
// What a query sees is a range of keys, so a mask is two numbers per lane. From them follow, per group of
// kLanes queries and block of kRows keys, the parts of a tile that are computed at all.
#pragma once

#include HWS_SIMD

#include "kernels/include/attention.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kTile = kLanes == 16 ? 64 : 48;  // queries, and keys, in a tile
constexpr int kVecs = kTile / kLanes;          // vectors across the queries of a tile
constexpr int kRows = 4;                       // rows of a product's register block
constexpr int kCols = kLanes == 16 ? 4 : 3;    // vectors across a register block: 32 registers, or 16
constexpr int kBlocks = kTile / kRows;         // key blocks in a tile
constexpr int kDepth = 64;                     // depth of a product for which its operands stay in L1
constexpr float kMasked = -1e30f;              // a score that no query sees; finite, so that no NaN arises
constexpr float kLowestMax = -1e29f;           // where running maxima start: exp(kMasked - kLowestMax) is 0

inline int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/// The rows of a query tile: which query of which head stands in each lane, and the keys lo..hi that it sees.
struct QueryTile {
  int n;           // rows in use; the other lanes see nothing
  int vecs;        // vectors in use
  int64_t lo, hi;  // the keys any row sees
  int32_t head[kTile], query[kTile];
  int32_t row_lo[kTile], row_hi[kTile];
  int32_t vec_lo[kVecs], vec_hi[kVecs];    // keys that a vector's work covers
  int32_t full_lo[kVecs], full_hi[kVecs];  // keys that all its lanes see
};

inline void set_row(QueryTile& tile, const AttentionShape& s, int64_t b, int row, int64_t head, int64_t t) {
  const int64_t position = s.q_offset + t;
  int64_t lo = s.kv_begin != nullptr ? most(s.kv_begin[b * s.seq_q + t], 0) : 0;
  if (s.window > 0) lo = most(lo, position - s.window + 1);
  tile.head[row] = static_cast<int32_t>(head);
  tile.query[row] = static_cast<int32_t>(t);
  tile.row_lo[row] = static_cast<int32_t>(lo);
  tile.row_hi[row] = static_cast<int32_t>(least(position, s.seq_k - 1));
}

/// Fills in everything below row_lo and row_hi, which the first n rows have. Where the ranges do not ascend
/// from row to row, every vector covers the whole tile: then the parts computed are always without holes.
inline void finish_rows(QueryTile& tile, int n) {
  tile.n = n;
  tile.vecs = (n + kLanes - 1) / kLanes;
  tile.lo = INT32_MAX;
  tile.hi = -1;
  bool ascending = true;
  for (int r = 0; r < n; ++r) {
    tile.lo = least(tile.lo, tile.row_lo[r]);
    tile.hi = most(tile.hi, tile.row_hi[r]);
    if (r > 0 && (tile.row_lo[r] < tile.row_lo[r - 1] || tile.row_hi[r] < tile.row_hi[r - 1]))
      ascending = false;
  }
  for (int r = n; r < kTile; ++r) {
    tile.head[r] = tile.query[r] = 0;
    tile.row_lo[r] = INT32_MAX;
    tile.row_hi[r] = -1;
  }
  for (int c = 0; c < kVecs; ++c) {
    int32_t lo = INT32_MAX, hi = -1, full_lo = -1, full_hi = INT32_MAX;
    for (int r = c * kLanes; r < (c + 1) * kLanes; ++r) {
      lo = tile.row_lo[r] < lo ? tile.row_lo[r] : lo;
      hi = tile.row_hi[r] > hi ? tile.row_hi[r] : hi;
      full_lo = tile.row_lo[r] > full_lo ? tile.row_lo[r] : full_lo;
      full_hi = tile.row_hi[r] < full_hi ? tile.row_hi[r] : full_hi;
    }
    tile.vec_lo[c] = ascending ? lo : static_cast<int32_t>(tile.lo);
    tile.vec_hi[c] = ascending ? hi : static_cast<int32_t>(tile.hi);
    tile.full_lo[c] = full_lo;
    tile.full_hi[c] = full_hi;
  }
}

/// The work of one query tile on the keys [start, start + kTile), in key rows relative to start.
struct KeyTile {
  int64_t start;
  int first, last;  // rows any vector works on, multiples of kRows
  int vec_first[kVecs], vec_last[kVecs];
  bool masked[kVecs];                             // some lane does not see some row of its vector's work
  int block_first[kBlocks], block_last[kBlocks];  // vectors that work on a block of kRows rows
};

inline KeyTile key_tile(const QueryTile& q, int64_t start) {
  KeyTile k;
  k.start = start;
  k.first = kTile;
  k.last = 0;
  for (int b = 0; b < kBlocks; ++b) k.block_first[b] = k.block_last[b] = 0;
  for (int c = 0; c < kVecs; ++c) {
    const int first = static_cast<int>(least(most(q.vec_lo[c] - start, 0), kTile)) / kRows * kRows;
    const int last = static_cast<int>(round_up(most(least(q.vec_hi[c] + 1 - start, kTile), 0), kRows));
    const bool empty = c >= q.vecs || last <= first;
    k.vec_first[c] = empty ? 0 : first;
    k.vec_last[c] = empty ? 0 : last;
    k.masked[c] = q.full_lo[c] > start + first || q.full_hi[c] < start + last - 1;
    if (empty) continue;
    k.first = first < k.first ? first : k.first;
    k.last = last > k.last ? last : k.last;
    for (int b = first / kRows; b < last / kRows; ++b) {
      if (k.block_last[b] == 0) k.block_first[b] = c;
      k.block_last[b] = c + 1;
    }
  }
  return k;
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

/// out[kRows][C vectors] (+)= sum over p < depth of a[r * a_row + p * a_depth] * b[p * b_stride + ...].
template <int C, bool kAdd>
void product_block(float* out, int64_t out_stride, const float* a, int64_t a_row, int64_t a_depth,
                   const float* b, int64_t b_stride, int64_t depth) {
  vf sum[kRows][C];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < C; ++c) sum[r][c] = kAdd ? vload(out + r * out_stride + c * kLanes) : vzero();
  }
  for (int64_t p = 0; p < depth; ++p, a += a_depth, b += b_stride) {
    vf line[C];
    for (int c = 0; c < C; ++c) line[c] = vload(b + c * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const vf x = vset(a[r * a_row]);
      for (int c = 0; c < C; ++c) sum[r][c] = vfma(x, line[c], sum[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < C; ++c) vstore(out + r * out_stride + c * kLanes, sum[r][c]);
  }
}

template <bool kAdd>
inline void product_columns(int columns, float* out, int64_t out_stride, const float* a, int64_t a_row,
                            int64_t a_depth, const float* b, int64_t b_stride, int64_t depth) {
  if (columns >= kCols) {
    product_block<kCols, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  } else if (columns == 3) {
    product_block<3, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  } else if (columns == 2) {
    product_block<2, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  } else {
    product_block<1, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  }
}

/// out^T [key][query] = rows [key][width] · columns [d][query], over d < depth, where `k` says there is work.
/// With rows = K and columns = Q^T these are the scores; with V and dO^T the gradients of the probabilities.
inline void transposed_product(float* out, const KeyTile& k, const float* rows, int64_t width,
                               const float* columns, int64_t depth) {
  for (int64_t d = 0; d < depth; d += kDepth) {
    const int64_t part = least(kDepth, depth - d);
    for (int row = k.first; row < k.last; row += kRows) {
      const int last = k.block_last[row / kRows];
      for (int c = k.block_first[row / kRows]; c < last; c += kCols) {
        float* to = out + row * kTile + c * kLanes;
        const float* a = rows + row * width + d;
        const float* b = columns + d * kTile + c * kLanes;
        if (d == 0) {
          product_columns<false>(last - c, to, kTile, a, width, 1, b, kTile, part);
        } else {
          product_columns<true>(last - c, to, kTile, a, width, 1, b, kTile, part);
        }
      }
    }
  }
}

/// out [query][width] += p [key][query]^T · rows [key][width]: o from V, dq from K.
inline void add_over_keys(float* out, const QueryTile& q, const KeyTile& k, const float* p, const float* rows,
                          int64_t width) {
  for (int64_t d = 0; d < width; d += kCols * kLanes) {
    const int columns = static_cast<int>((width - d) / kLanes);
    for (int row = 0; row < q.n; row += kRows) {
      const int first = k.vec_first[row / kLanes], last = k.vec_last[row / kLanes];
      if (first == last) continue;
      product_columns<true>(columns, out + row * width + d, width, p + first * kTile + row, 1, kTile,
                            rows + first * width + d, width, last - first);
    }
  }
}

/// out [key][width] += p [key][query] · rows [query][width]: dv from dO, dk from Q.
inline void add_over_queries(float* out, const KeyTile& k, const float* p, const float* rows, int64_t width) {
  for (int64_t d = 0; d < width; d += kCols * kLanes) {
    const int columns = static_cast<int>((width - d) / kLanes);
    for (int row = k.first; row < k.last; row += kRows) {
      const int first = k.block_first[row / kRows] * kLanes, last = k.block_last[row / kRows] * kLanes;
      if (first == last) continue;
      product_columns<true>(columns, out + row * width + d, width, p + row * kTile + first, kTile, 1,
                            rows + first * width + d, width, last - first);
    }
  }
}

/// to[j] = scale * from[j], j < d, then zeros up to width.
template <class E>
inline void load_row(float* to, const E* from, int64_t d, int64_t width, float scale) {
  const vf factor = vset(scale);
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) vstore(to + j, vmul(load(from + j), factor));
  for (; j < width; j += kLanes) {
    vstore(to + j, j < d ? vmul(load_n(from + j, static_cast<int>(d - j)), factor) : vzero());
  }
}

template <class E>
inline void store_row(E* to, const float* from, int64_t d, float scale) {
  const vf factor = vset(scale);
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) store(to + j, vmul(vload(from + j), factor));
  if (j < d) store_n(to + j, vmul(vload(from + j), factor), static_cast<int>(d - j));
}

inline void zero(float* x, int64_t n) {
  for (int64_t j = 0; j < n; j += kLanes) vstore(x + j, vzero());
}

/// columns [width][kTile] = rows [kTile][width] transposed, for the first `vecs` vectors of rows.
inline void transpose(float* columns, const float* rows, int64_t width, int vecs) {
  for (int c = 0; c < vecs; ++c) {
    for (int64_t d = 0; d < width; d += kLanes) {
      vf block[kLanes];
      for (int i = 0; i < kLanes; ++i) block[i] = vload(rows + (c * kLanes + i) * width + d);
      vtranspose(block);
      for (int i = 0; i < kLanes; ++i) vstore(columns + (d + i) * kTile + c * kLanes, block[i]);
    }
  }
}

/// The rows of a key tile: those from `start` on of `from` (rows `stride` apart), zero outside of the keys
/// lo..hi that some query sees, so that nothing unseen, not even a NaN, is read.
template <class E>
inline void load_keys(float* to, const E* from, int64_t stride, int64_t start, int64_t lo, int64_t hi,
                      int64_t d, int64_t width) {
  const int64_t last = least(kTile, round_up(hi + 1 - start, kRows));
  for (int64_t row = 0; row < last; ++row) {
    const int64_t key = start + row;
    if (key >= lo && key <= hi) {
      load_row(to + row * width, from + key * stride, d, width, 1.0f);
    } else {
      zero(to + row * width, width);
    }
  }
}

// Philox blocks made side by side: those of kMaskQueries queries and two blocks of four keys.
constexpr int kMaskQueries = 16, kMaskKeys = 8, kSideBySide = 32;

/// One round of Philox on kSideBySide counters. A function of its own, so that the compiler sees arrays that
/// do not overlap and a loop to put into lanes.
__attribute__((noinline)) void philox_round(uint32_t* __restrict c0, uint32_t* __restrict c1,
                                            uint32_t* __restrict c2, uint32_t* __restrict c3, uint32_t k0,
                                            uint32_t k1) {
  for (int i = 0; i < kSideBySide; ++i) {
    const uint64_t p0 = 0xD2511F53ull * c0[i], p1 = 0xCD9E8D57ull * c2[i];
    c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
    c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
    c1[i] = static_cast<uint32_t>(p1);
    c3[i] = static_cast<uint32_t>(p0);
  }
}

/// keep[j * kTile + i] = 0 where dropout falls on key 4 * block + j of (query[i], head[i]), else 1; j <
/// kMaskKeys, i < kMaskQueries. The words of dropout_words for position (head, query).
inline void dropout_block(float* keep, float p, uint64_t key, const int32_t* query, const int32_t* head,
                          uint64_t block) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0[kSideBySide], c1[kSideBySide], c2[kSideBySide], c3[kSideBySide];
  for (int i = 0; i < kSideBySide; ++i) {
    const uint64_t at = block + static_cast<uint64_t>(i / kMaskQueries);
    c0[i] = static_cast<uint32_t>(query[i % kMaskQueries]);
    c1[i] = static_cast<uint32_t>(head[i % kMaskQueries]);
    c2[i] = static_cast<uint32_t>(at);
    c3[i] = static_cast<uint32_t>(at >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    philox_round(c0, c1, c2, c3, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // philox_uniform(word) < p, in whole numbers: p * 2^24 is exact, and a word's lowest 8 bits do not count.
  const float scaled = p * 16777216.0f;
  const auto whole = static_cast<uint32_t>(scaled);
  const uint32_t limit = (static_cast<float>(whole) < scaled ? whole + 1 : whole) << 8;
  const uint32_t* words[4] = {c0, c1, c2, c3};
  for (int j = 0; j < kMaskKeys; ++j) {
    typedef uint32_t Words __attribute__((vector_size(kMaskQueries * 4)));
    Words w;
    __builtin_memcpy(&w, words[j % 4] + j / 4 * kMaskQueries, sizeof(w));
    w = reinterpret_cast<Words>(w >= limit) & 0x3f800000u;  // the bits of 1
    __builtin_memcpy(keep + j * kTile, &w, sizeof(w));
  }
}

/// keep[key][query] = 0 where dropout falls, else 1, where there is work (and a little around it).
inline void dropout_tile(float* keep, const AttentionShape& s, int64_t b, const QueryTile& q,
                         const KeyTile& k) {
  static_assert(kTile % kMaskKeys == 0 && kTile % kMaskQueries == 0);
  const uint64_t key = s.dropout.key ^ (s.dropout.samples[b] * 0x9E3779B97F4A7C15ull);
  for (int c = 0; c < q.vecs; c += kMaskQueries / kLanes) {
    const int end = c + kMaskQueries / kLanes;
    int first = kTile, last = 0;
    for (int v = c; v < end; ++v) {
      if (k.vec_first[v] == k.vec_last[v]) continue;
      first = k.vec_first[v] < first ? k.vec_first[v] : first;
      last = k.vec_last[v] > last ? k.vec_last[v] : last;
    }
    for (int row = first / kMaskKeys * kMaskKeys; row < last; row += kMaskKeys) {
      const int i = c * kLanes;
      dropout_block(keep + row * kTile + i, s.dropout.p, key, q.query + i, q.head + i,
                    static_cast<uint64_t>(k.start + row) / 4);
    }
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
