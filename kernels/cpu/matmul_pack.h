// Packing: copies the operands of the matrix product into panels of W rows (of op(a)) or columns (of op(b)),
// so that the micro-kernel reads both with stride one. Panels are [word][w]; if a step has several words
// (kStepWords), they are [step][w][word of the step]. Missing rows or columns are 0.
#pragma once

#include "kernels/cpu/matmul_words_wide.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// One operand as `count` lines (rows of op(a), columns of op(b)) of k values each.
struct Operand {
  const void* data;
  int64_t ld;         ///< elements between stored rows
  int64_t count;      ///< lines
  bool k_contiguous;  ///< true if a stored row is a line; otherwise it has one k of every line
  bool is_f32;
};

constexpr HWS_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr HWS_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr HWS_INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr HWS_INLINE int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

constexpr int64_t kFetchAhead = 256;  ///< bytes of a line that are prefetched while it is packed

/// Values of k that one step of the micro-kernel multiplies.
template <class Words>
constexpr int kStepValues = Words::kStepWords* Words::kPerWord;

/// Packs kLanes lines by kLanes words, transposed in registers. kFull: all words exist; otherwise only nk
/// values of k do.
template <class Words, int W, bool kFull, class T>
HWS_INLINE void pack_square(float* panel, const T* p, int64_t ld, int lines, int stored_lines, int nk) {
  vf rows[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    rows[i] = i >= lines ? vzero() : kFull ? Words::along_k(p + i * ld) : Words::along_k(p + i * ld, nk);
  }
  if constexpr (Words::kStepWords > 1) {
    static_assert(W % kLanes == 0);
    Words::arrange(rows);
    constexpr int kStepVectors = Words::kStepWords;
    const int steps = kFull ? kLanes / kStepVectors : (nk + kStepValues<Words> - 1) / kStepValues<Words>;
    for (int j = 0; j < steps * kStepVectors; ++j)
      vstore(panel + j / kStepVectors * kStepVectors * W + j % kStepVectors * kLanes, rows[j]);
    return;
  } else {
    vtranspose(rows);
  }
  if constexpr (kFull) {
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) {
      if (stored_lines == kLanes) {
        vstore(panel + j * W, rows[j]);
      } else {
        vstore_n(panel + j * W, rows[j], stored_lines);
      }
    }
  } else {
    const int words = (nk + Words::kPerWord - 1) / Words::kPerWord;
    for (int j = 0; j < words; ++j) vstore_n(panel + j * W, rows[j], stored_lines);
  }
}

/// Packs `lines` (at most W) lines of k values that are contiguous in k.
template <class Words, int W, class T>
void pack_lines(float* panel, const T* p, int64_t ld, int lines, int64_t k) {
  constexpr int kStep = kLanes * Words::kPerWord;
  for (int64_t k0 = 0; k0 < k; k0 += kStep) {
    const int nk = static_cast<int>(smaller(kStep, k - k0));
    float* out = panel + k0 / Words::kPerWord * W;
#pragma GCC unroll 4
    for (int w = 0; w < W; w += kLanes) {
      const int stored = W - w < kLanes ? W - w : kLanes;
      const int n = lines - w < 0 ? 0 : lines - w < stored ? lines - w : stored;
      const T* from = n > 0 ? p + w * ld + k0 : p;
      for (int i = 0; i < n; ++i) {  // there are too many streams for the hardware prefetcher
        const char* const ahead = reinterpret_cast<const char*>(from + i * ld) + kFetchAhead;
        for (size_t byte = 0; byte < kStep * sizeof(T); byte += 64) __builtin_prefetch(ahead + byte);
      }
      if (nk == kStep) {
        pack_square<Words, W, true>(out + w * Words::kStepWords, from, ld, n, stored, nk);
      } else {
        pack_square<Words, W, false>(out + w * Words::kStepWords, from, ld, n, stored, nk);
      }
    }
  }
}

/// Packs lines that are side by side in each stored row, in steps of several words.
template <class Words, int W, class T>
void pack_column_steps(float* panel, const T* p, int64_t ld, int lines, int64_t k) {
  constexpr int kStep = kStepValues<Words>;
  for (int64_t k0 = 0; k0 < k; k0 += kStep) {
    const int nk = static_cast<int>(smaller(kStep, k - k0));
    float* const out = panel + k0 / Words::kPerWord * W;
#pragma GCC unroll 4
    for (int w = 0; w < W; w += kLanes) {
      const int n = lines - w < 0 ? 0 : lines - w < kLanes ? lines - w : kLanes;
      Words::across_step(out + w * Words::kStepWords, n > 0 ? p + k0 * ld + w : p, ld, n > 0 ? nk : 0, n);
    }
  }
}

/// Packs lines that are side by side in each stored row.
template <class Words, int W, class T>
void pack_columns(float* panel, const T* p, int64_t ld, int lines, int64_t k) {
  int64_t k0 = 0;
  if constexpr (Words::kPerWord == 2 && W == 2 * kLanes && sizeof(T) == 2) {
    for (; lines == W && k0 + 2 <= k; k0 += 2) Words::across_line(panel + k0 / 2 * W, p + k0 * ld, ld);
  }
  for (; k0 < k; k0 += Words::kPerWord) {
    const int nk = static_cast<int>(smaller(Words::kPerWord, k - k0));
    const T* row = p + k0 * ld;
    float* out = panel + k0 / Words::kPerWord * W;
#pragma GCC unroll 4
    for (int w = 0; w < W; w += kLanes) {
      const int stored = W - w < kLanes ? W - w : kLanes;
      const int n = lines - w < stored ? lines - w : stored;
      if (n == kLanes) {
        vstore(out + w, Words::across(row + w, ld, nk));
      } else if (kLanes == 8 && lines == W && W < kLanes) {  // the levels store this size without a mask
        vstore_n(out + w, Words::across(row + w, ld, nk, W), W);
      } else {
        const vf x = n > 0 ? Words::across(row + w, ld, nk, n) : vzero();
        vstore_n(out + w, x, stored);
      }
    }
  }
}

/// Panels that are not a multiple of a vector are packed together, kWideLines lines at a time.
constexpr int64_t kWideLines = 3 * kLanes;

/// Packs several panels, of kWideLines lines together, like pack_columns.
template <class Words, int W>
void pack_wide_columns(float* out, int64_t panel_words, const uint16_t* p, int64_t ld, int64_t k) {
  for (int64_t k0 = 0; k0 < k; k0 += Words::kPerWord) {
    const int nk = static_cast<int>(smaller(Words::kPerWord, k - k0));
    Words::across_panels(out + k0 / Words::kPerWord * W, panel_words, p + k0 * ld, nk > 1 ? ld : 0, nk);
  }
}

/// Packs `panels` panels from line `line` on, values [k0, k0 + k) of each, to out, out + panel_words, ...
/// Lines that are side by side are packed in strips of k, so that the stored rows of adjacent panels are read
/// while they are in the cache.
template <class Words, int W, class T>
void pack_typed(float* out, int64_t panel_words, const Operand& x, int64_t line, int64_t panels, int64_t k0,
                int64_t k) {
  const T* data = static_cast<const T*>(x.data);
  const int64_t most = x.k_contiguous ? larger(1, k) : 8;
  for (int64_t strip = 0; strip < k; strip += most) {
    const int64_t length = smaller(most, k - strip), at_k = k0 + strip;
    int64_t i = 0;
    if constexpr (Words::kPerWord == 2 && kWideLines % W == 0 && W % kLanes != 0 && sizeof(T) == 2) {
      constexpr int64_t kPanels = kWideLines / W;
      for (; !x.k_contiguous && i + kPanels <= panels && line + (i + kPanels) * W <= x.count; i += kPanels) {
        pack_wide_columns<Words, W>(out + i * panel_words + strip / Words::kPerWord * W, panel_words,
                                    data + at_k * x.ld + line + i * W, x.ld, length);
      }
    }
    for (; i < panels; ++i) {
      const int64_t first = line + i * W;
      const int lines = static_cast<int>(smaller(W, x.count - first));
      float* to = out + i * panel_words + strip / Words::kPerWord * W;
      if (x.k_contiguous) {
        pack_lines<Words, W>(to, data + first * x.ld + at_k, x.ld, lines, length);
      } else if constexpr (Words::kStepWords > 1) {
        pack_column_steps<Words, W>(to, data + at_k * x.ld + first, x.ld, lines, length);
      } else {
        pack_columns<Words, W>(to, data + at_k * x.ld + first, x.ld, lines, length);
      }
    }
  }
}

template <class Words, int W>
void pack(float* out, int64_t panel_words, const Operand& x, int64_t line, int64_t panels, int64_t k0,
          int64_t k) {
  if constexpr (__is_same(Words, F32Words)) {
    pack_typed<Words, W, float>(out, panel_words, x, line, panels, k0, k);
  } else if (x.is_f32) {
    pack_typed<Words, W, float>(out, panel_words, x, line, panels, k0, k);
  } else if constexpr (__is_same(Words, F16Words)) {
    pack_typed<Words, W, Half>(out, panel_words, x, line, panels, k0, k);
  } else {
    pack_typed<Words, W, uint16_t>(out, panel_words, x, line, panels, k0, k);
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
