// Packs rows of q, k, v and dO into the words that tiles multiply (attention_words.h), in three forms: lines
// [row][line_words], words along each row; columns [panel][line_words][kPanel], the same transposed; and
// across [row / kPerWord][width], words across adjacent rows. Rows are given by pointers, so that rows that
// must not be read (not even for a NaN) can be replaced by zeros. Padding is zero in every form.
#pragma once

#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Returns the arguments with value_dim set.
template <class Args>
inline Args with_value_dim(Args args) {
  if (args.s.value_dim == 0) args.s.value_dim = args.s.head_dim;
  return args;
}

/// Number of words in a row of d values.
template <class Words>
inline int64_t words_in(int64_t d) {
  return (d + Words::kPerWord - 1) / Words::kPerWord;
}
template <class Words>
inline int64_t line_words(int64_t d) {
  return round_up(words_in<Words>(d), kLanes);
}
inline int64_t padded_width(int64_t d) { return round_up(d, kLanes); }

/// Pointers to up to kTile rows of d values each.
template <class E>
struct RowPointers {
  const E* row[kTile];
};

/// Points to n rows, `stride` apart, from key `start` on; rows outside of keys lo..hi become `zeros`.
template <class E>
inline void point_to_keys(RowPointers<E>& rows, int n, const E* keys, int64_t stride, int64_t start,
                          int64_t lo, int64_t hi, const E* zeros) {
  for (int r = 0; r < n; ++r) {
    const int64_t key = start + r;
    rows.row[r] = key >= lo && key <= hi ? keys + key * stride : zeros;
  }
}

template <class Words, class E>
HWS_NOINLINE void pack_lines(float* to, const RowPointers<E>& rows, int n, int64_t d) {
  const int64_t words = line_words<Words>(d);
  for (int64_t w = 0; w < words; w += kLanes) {
    const int64_t at = w * Words::kPerWord;
    const int here = static_cast<int>(least(d - at, kLanes * Words::kPerWord));
    for (int r = 0; r < n; ++r) vstore(to + r * words + w, Words::along(rows.row[r] + at, here));
  }
}

/// Packs the first `vecs` vectors of rows as columns.
template <class Words, class E>
HWS_NOINLINE void pack_columns(float* to, const RowPointers<E>& rows, int vecs, int64_t d) {
  const int64_t words = line_words<Words>(d);
  for (int c = 0; c < vecs; ++c) {
    for (int64_t w = 0; w < words; w += kLanes) {
      const int64_t at = w * Words::kPerWord;
      const int here = static_cast<int>(least(d - at, kLanes * Words::kPerWord));
      vf block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) block[i] = Words::along(rows.row[c * kLanes + i] + at, here);
      vtranspose(block);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) vstore(to + in_panels(c, words) + (w + i) * kPanel, block[i]);
    }
  }
}

/// Packs n rows across; n is even.
template <class Words, class E>
HWS_NOINLINE void pack_across(float* to, const RowPointers<E>& rows, int n, int64_t d) {
  const int64_t width = padded_width(d);
  for (int64_t j = 0; j < width; j += kLanes) {
    const int here = static_cast<int>(least(d - j, kLanes));
    for (int r = 0; r < n; r += Words::kPerWord) {
      const E *first = rows.row[r], *second = rows.row[r + Words::kPerWord - 1];
      vstore(to + r / Words::kPerWord * width + j,
             Words::across(load_n(first + j, here), load_n(second + j, here)));
    }
  }
}

/// Prefetches part i of n of the rows first..last (rows `stride` apart, d values each) into the L2 cache
/// while other work runs. Rows of one head are too far apart for the hardware prefetcher.
template <class E>
inline void fetch_rows(const E* rows, int64_t stride, int64_t first, int64_t last, int64_t d, int i, int n) {
  const int64_t count = most(last - first + 1, 0), end = first + count * (i + 1) / n;
  for (int64_t row = first + count * i / n; row < end; ++row) {
    for (int64_t j = 0; j < d; j += 64 / static_cast<int64_t>(sizeof(E)))
      __builtin_prefetch(rows + row * stride + j, 0, 2);
  }
}

/// Prefetches n consecutive floats.
inline void fetch_floats(const float* x, int64_t n) {
  for (int64_t j = 0; j < n; j += 16) __builtin_prefetch(x + j, 0, 2);
}

inline void zero(float* x, int64_t n) {
  for (int64_t j = 0; j < n; j += kLanes) vstore(x + j, vzero());
}
inline void copy(float* to, const float* from, int64_t n) {
  for (int64_t j = 0; j < n; j += kLanes) vstore(to + j, vload(from + j));
}

/// to[j] = scale * from[j], j < d.
template <class E>
inline void store_row(E* to, const float* from, int64_t d, float scale) {
  const vf factor = vset(scale);
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) store(to + j, vmul(vload(from + j), factor));
  if (j < d) store_n(to + j, vmul(vload(from + j), factor), static_cast<int>(d - j));
}

/// to[j] += scale * from[j], j < d.
inline void add_row(float* to, const float* from, int64_t d, float scale) {
  const vf factor = vset(scale);
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) vstore(to + j, vfma(vload(from + j), factor, vload(to + j)));
  if (j < d) {
    const int n = static_cast<int>(d - j);
    vstore_n(to + j, vfma(vload(from + j), factor, vload_n(to + j, n)), n);
  }
}

/// to[j] = others * to[j] + here * from[j], j < d. `to` is not read if others is 0.
inline void merge_row(float* to, const float* from, int64_t d, float others, float here) {
  if (others == 0) return store_row(to, from, d, here);
  const vf kept = vset(others), factor = vset(here);
  for (int64_t j = 0; j < d; j += kLanes) {
    const int n = static_cast<int>(least(d - j, kLanes));
    vstore_n(to + j, vfma(vload(from + j), factor, vmul(vload_n(to + j, n), kept)), n);
  }
}

/// to[j] = 0, j < d.
template <class E>
inline void clear_row(E* to, int64_t d) {
  for (int64_t j = 0; j < d; ++j) to[j] = static_cast<E>(0);
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
