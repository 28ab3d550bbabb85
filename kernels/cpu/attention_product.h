// The three products of tiles, restricted to the parts that the masks allow. Both operands are words
// (attention_words.h); sums are fp32.
#pragma once

#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/attention_pack.h"
#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kDepth = 64;  // words of depth for which a product's operands fit in L1

/// Layout of kRows rows of at most `depth` words: [row][depth], or [depth][row].
enum class Rows { kAlong, kAcross };

/// out[kRows][C vectors] (+)= sum over p < depth of word p of each row of a times b[p * b_stride + ...].
template <class Words, int C, bool kAdd, Rows kA>
void product_block(float* out, int64_t out_stride, const float* a, int64_t a_stride, const float* b,
                   int64_t b_stride, int64_t depth) {
  vf sum[kRows][C];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sum[r][c] = kAdd ? vload(out + r * out_stride + c * kLanes) : vzero();
  }
#pragma GCC unroll 2
  for (int64_t p = 0; p < depth; ++p, a += kA == Rows::kAlong ? 1 : a_stride, b += b_stride) {
    vf line[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) line[c] = vload(b + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const vf x = vset(a[r * (kA == Rows::kAlong ? a_stride : 1)]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sum[r][c] = Words::multiply_add(x, line[c], sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) vstore(out + r * out_stride + c * kLanes, sum[r][c]);
  }
}

template <class Words, bool kAdd, Rows kA>
inline void product_columns(int columns, float* out, int64_t out_stride, const float* a, int64_t a_stride,
                            const float* b, int64_t b_stride, int64_t depth) {
  if (columns >= kCols) {
    product_block<Words, kCols, kAdd, kA>(out, out_stride, a, a_stride, b, b_stride, depth);
  } else if (columns == 3) {
    product_block<Words, 3, kAdd, kA>(out, out_stride, a, a_stride, b, b_stride, depth);
  } else if (columns == 2) {
    product_block<Words, 2, kAdd, kA>(out, out_stride, a, a_stride, b, b_stride, depth);
  } else {
    product_block<Words, 1, kAdd, kA>(out, out_stride, a, a_stride, b, b_stride, depth);
  }
}

/// Computes, for one panel of queries, out [key - keys.first][kPanel] = lines [key] · columns [query] over
/// `words` words. With K and Q^T these are the scores, with V and dO^T the gradients of the probabilities.
/// lines: [key][line_words]; columns: the panel's [word][kPanel].
template <class Words>
HWS_NOINLINE void transposed_product(float* out, int panel, const KeyTile& k, RowRange keys,
                                     const float* lines, int64_t line_words, const float* columns,
                                     int64_t words) {
  using Product = typename Words::Product;
  for (int64_t w = 0; w < words; w += kDepth) {
    const int64_t depth = least(kDepth, words - w);
    for (int row = keys.first; row < keys.last; row += kRows) {
      const int first = static_cast<int>(most(k.block_first[row / kRows] - panel * kCols, 0));
      const int last = static_cast<int>(least(k.block_last[row / kRows] - panel * kCols, kCols));
      if (first >= last) continue;
      float* to = out + (row - keys.first) * kPanel + first * kLanes;
      const float* a = lines + row * line_words + w;
      const float* b = columns + w * kPanel + first * kLanes;
      if (w == 0) {
        product_columns<Product, false, Rows::kAlong>(last - first, to, kPanel, a, line_words, b, kPanel,
                                                      depth);
      } else {
        product_columns<Product, true, Rows::kAlong>(last - first, to, kPanel, a, line_words, b, kPanel,
                                                     depth);
      }
    }
  }
}

/// Sums of a query tile over keys, o or dq: [query][width]. Rows of a vector of queries that has not started
/// yet have no value.
struct QuerySums {
  float* out;
  int64_t width;
  bool begun[kVecs];
};

inline void begin_sums(QuerySums& sums, float* out, int64_t width) {
  sums.out = out;
  sums.width = width;
  for (int c = 0; c < kVecs; ++c) sums.begun[c] = false;
}

/// Zeros the sums of those of the first `vecs` vectors that saw no key.
inline void end_sums(QuerySums& sums, int vecs) {
  for (int c = 0; c < vecs; ++c) {
    if (!sums.begun[c]) zero(sums.out + c * kLanes * sums.width, kLanes * sums.width);
  }
}

/// Returns the part of `keys` that any of kRows queries from `row` on sees; all of them if the queries'
/// ranges do not ascend or a varying depth costs more (find_queries_of_blocks).
template <class Words>
inline RowRange seen_keys(const QueryTile& q, int row, int64_t start, RowRange keys) {
  if (row >= q.n) return {0, 0};
  if (Words::kPerWord > 1 || !q.ascending) return keys;
  const int last = row + kRows < q.n ? row + kRows - 1 : q.n - 1;
  return {static_cast<int>(most(keys.first, q.row_lo[row] - start)),
          static_cast<int>(least(keys.last, q.row_hi[last] + 1 - start))};
}

/// Adds p^T · rows over the key rows keys[c] to the sums of the vectors c0..c1 of one panel: o from V, dq
/// from K. p: the panel's words across keys [key / kPerWord][kPanel]; rows: words across keys [key /
/// kPerWord][width].
template <class Words>
HWS_NOINLINE void add_over_keys(QuerySums& sums, const QueryTile& q, int64_t start, int c0, int c1,
                                const RowRange* keys, const float* p, const float* rows) {
  using Product = typename Words::Product;
  constexpr int kPer = Words::kPerWord;
  const int64_t width = sums.width;
  for (int64_t d = 0; d < width; d += kCols * kLanes) {
    const int columns = static_cast<int>((width - d) / kLanes);
    for (int row = c0 * kLanes; row < c1 * kLanes; row += kRows) {
      const int c = row / kLanes;
      const RowRange seen = seen_keys<Words>(q, row, start, keys[c]);
      const int from = seen.first / kPer, depth = (seen.last + kPer - 1) / kPer - from;
      if (keys[c].first >= keys[c].last || (depth <= 0 && sums.begun[c])) continue;
      float* out = sums.out + row * width + d;
      const float* a = p + from * kPanel + row % kPanel;
      const float* b = rows + from * width + d;
      if (sums.begun[c]) {
        product_columns<Product, true, Rows::kAcross>(columns, out, width, a, kPanel, b, width, depth);
      } else {
        product_columns<Product, false, Rows::kAcross>(columns, out, width, a, kPanel, b, width, depth);
      }
    }
  }
  for (int c = c0; c < c1; ++c) sums.begun[c] = sums.begun[c] || keys[c].first < keys[c].last;
}

/// out [key][width] += p · rows, summed over queries: dv from dO, dk from Q. p: words along queries
/// [key - keys.first][kTile / kPerWord]; rows: words across queries [query / kPerWord][width].
template <class Words>
HWS_NOINLINE void add_over_queries(float* out, const BlockQueries& queries, RowRange keys, const float* p,
                                   const float* rows, int64_t width) {
  constexpr int kPer = Words::kPerWord, kLine = kTile / kPer;
  for (int64_t d = 0; d < width; d += kCols * kLanes) {
    const int columns = static_cast<int>((width - d) / kLanes);
    for (int row = keys.first; row < keys.last; row += kRows) {
      const RowRange seeing = queries.block[row / kRows];
      const int first = seeing.first / kPer, last = seeing.last / kPer;
      if (first >= last) continue;
      product_columns<typename Words::Product, true, Rows::kAlong>(
          columns, out + row * width + d, width, p + (row - keys.first) * kLine + first, kLine,
          rows + first * width + d, width, last - first);
    }
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
