// The words that make up packed panels of the matrix product: 32-bit words, one per (row or column, step of
// k). A words type defines how many values of k one word holds, how words are read from memory, and how the
// micro-kernel multiplies them. This is the fp32 type; matmul_words_wide.h has the type of narrow values that
// are widened, and the level's header names the file of Bf16Words.
#pragma once

#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct F32Words {
  using Product =
      F32Words;  ///< the type whose multiply_add and store are used: tiles are compiled for it once
  static constexpr int kPerWord = 1;
  /// Words of a line that one step of the micro-kernel multiplies. Panels are [words / kStepWords][w]
  /// [kStepWords], and all blocks of k have whole steps.
  static constexpr int kStepWords = 1;

  /// Returns kLanes words along k, of which only nk values exist (the rest become 0).
  static HWS_INLINE vf along_k(const float* p) { return vload(p); }
  static HWS_INLINE vf along_k(const float* p, int nk) { return vload_n(p, nk); }

  /// Returns one word for each of `columns` adjacent lines; kPerWord values of k, of which nk exist, lie ld
  /// apart.
  static HWS_INLINE vf across(const float* p, int64_t, int) { return vload(p); }
  static HWS_INLINE vf across(const float* p, int64_t, int, int columns) { return vload_n(p, columns); }

  static HWS_INLINE vf multiply_add(vf a, vf b, vf sum) { return vfma(a, b, sum); }

  /// Stores a row of a tile, or n values of it, rounded to nearest even.
  template <class E, int kVectors>
  static HWS_INLINE void store_row(E* p, const vf (&x)[kVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(p + v * kLanes, x[v]);
  }
  template <class E>
  static HWS_INLINE void store_rest(E* p, vf x, int n) {
    store_n(p, x, n);
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
