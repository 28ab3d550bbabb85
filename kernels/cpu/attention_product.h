// The three products that tiles take part in, where the masks leave work. Both operands are words
// (attention_words.h); sums are fp32.
#pragma once

#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kDepth = 64;  // words of depth for which the operands of a product stay in L1

/// out[kRows][C vectors] (+)= sum over p < depth of a[r * a_row + p * a_depth] * b[p * b_stride + ...].
template <class Words, int C, bool kAdd>
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
      for (int c = 0; c < C; ++c) sum[r][c] = Words::multiply_add(x, line[c], sum[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < C; ++c) vstore(out + r * out_stride + c * kLanes, sum[r][c]);
  }
}

template <class Words, bool kAdd>
inline void product_columns(int columns, float* out, int64_t out_stride, const float* a, int64_t a_row,
                            int64_t a_depth, const float* b, int64_t b_stride, int64_t depth) {
  if (columns >= kCols) {
    product_block<Words, kCols, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  } else if (columns == 3) {
    product_block<Words, 3, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  } else if (columns == 2) {
    product_block<Words, 2, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  } else {
    product_block<Words, 1, kAdd>(out, out_stride, a, a_row, a_depth, b, b_stride, depth);
  }
}

/// Key rows first..last of a tile, multiples of kRows.
struct KeyRows {
  int first, last;
};

/// out [key - keys.first][query] = lines [key] · columns [query] over `words` words. With K and Q^T these are
/// the scores; with V and dO^T the gradients of the probabilities. lines: [key][line_words]; columns:
/// [word][kTile].
template <class Words>
inline void transposed_product(float* out, const KeyTile& k, KeyRows keys, const float* lines,
                               int64_t line_words, const float* columns, int64_t words) {
  using Product = typename Words::Product;
  for (int64_t w = 0; w < words; w += kDepth) {
    const int64_t depth = least(kDepth, words - w);
    for (int row = keys.first; row < keys.last; row += kRows) {
      const int last = k.block_last[row / kRows];
      for (int c = k.block_first[row / kRows]; c < last; c += kCols) {
        float* to = out + (row - keys.first) * kTile + c * kLanes;
        const float* a = lines + row * line_words + w;
        const float* b = columns + w * kTile + c * kLanes;
        if (w == 0) {
          product_columns<Product, false>(last - c, to, kTile, a, line_words, 1, b, kTile, depth);
        } else {
          product_columns<Product, true>(last - c, to, kTile, a, line_words, 1, b, kTile, depth);
        }
      }
    }
  }
}

/// out [query][width] += p^T · rows, summed over keys: o from V, dq from K. p: words across keys
/// [key / kPerWord][kTile]; rows: words across keys [key / kPerWord][width].
template <class Words>
inline void add_over_keys(float* out, const QueryTile& q, const KeyTile& k, const float* p, const float* rows,
                          int64_t width) {
  constexpr int kPer = Words::kPerWord;
  for (int64_t d = 0; d < width; d += kCols * kLanes) {
    const int columns = static_cast<int>((width - d) / kLanes);
    for (int row = 0; row < q.n; row += kRows) {
      const int first = k.vec_first[row / kLanes] / kPer, last = k.vec_last[row / kLanes] / kPer;
      if (first == last) continue;
      product_columns<typename Words::Product, true>(columns, out + row * width + d, width,
                                                     p + first * kTile + row, 1, kTile,
                                                     rows + first * width + d, width, last - first);
    }
  }
}

/// out [key][width] += p · rows, summed over queries: dv from dO, dk from Q. p: words along queries
/// [key - keys.first][kTile / kPerWord]; rows: words across queries [query / kPerWord][width].
template <class Words>
inline void add_over_queries(float* out, const KeyTile& k, KeyRows keys, const float* p, const float* rows,
                             int64_t width) {
  constexpr int kPer = Words::kPerWord, kLine = kTile / kPer;
  for (int64_t d = 0; d < width; d += kCols * kLanes) {
    const int columns = static_cast<int>((width - d) / kLanes);
    for (int row = keys.first; row < keys.last; row += kRows) {
      const int first = k.block_first[row / kRows] * kLanes / kPer;
      const int last = k.block_last[row / kRows] * kLanes / kPer;
      if (first == last) continue;
      product_columns<typename Words::Product, true>(columns, out + row * width + d, width,
                                                     p + (row - keys.first) * kLine + first, kLine, 1,
                                                     rows + first * width + d, width, last - first);
    }
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
