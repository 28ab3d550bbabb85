// Bf16Words for BFMMLA of 64-bit Arm: a word holds two adjacent values of k, and panels are
// [words / 2][w][2], so that 16 bytes hold four values of k of two lines, which the instruction multiplies by
// those of two other lines. simd/neonbf16.h describes its arithmetic.
#pragma once

#include "kernels/cpu/matmul_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct Bf16Words {
  using Product = Bf16Words;
  static constexpr int kPerWord = 2, kStepWords = 2;

  /// Return four words along k in the order of memory. Given nk, only nk values exist; the rest become 0.
  static HWS_INLINE vf along_k(const uint16_t* p) { return vreinterpretq_f32_u16(vld1q_u16(p)); }
  static HWS_INLINE vf along_k(const uint16_t* p, int nk) {
    uint16_t t[8] = {};
    for (int i = 0; i < nk; ++i) t[i] = p[i];
    return along_k(t);
  }
  static HWS_INLINE vf along_k(const float* p) { return rounded(vload(p), vload(p + kLanes)); }
  static HWS_INLINE vf along_k(const float* p, int nk) {
    const int first = nk < kLanes ? nk : kLanes;
    return rounded(vload_n(p, first), vload_n(p + kLanes, nk - first));
  }

  /// Rearranges four words along k of each of four lines into the vectors of a panel: the first two words of
  /// lines 0 and 1, then of lines 2 and 3; the last two words of lines 0 and 1, then of lines 2 and 3.
  static HWS_INLINE void arrange(vf (&rows)[kLanes]) {
    const float64x2_t a = vreinterpretq_f64_f32(rows[0]), b = vreinterpretq_f64_f32(rows[1]);
    const float64x2_t c = vreinterpretq_f64_f32(rows[2]), d = vreinterpretq_f64_f32(rows[3]);
    rows[0] = vreinterpretq_f32_f64(vzip1q_f64(a, b));
    rows[1] = vreinterpretq_f32_f64(vzip1q_f64(c, d));
    rows[2] = vreinterpretq_f32_f64(vzip2q_f64(a, b));
    rows[3] = vreinterpretq_f32_f64(vzip2q_f64(c, d));
  }

  /// Stores one step (two words) of four adjacent lines, of which `lines` exist. Its four values of k, of
  /// which nk exist, are ld elements apart.
  template <class T>
  static HWS_INLINE void across_step(float* out, const T* p, int64_t ld, int nk, int lines) {
    uint16x8_t k[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) k[i] = i < nk ? narrow(p + i * ld, lines) : vdupq_n_u16(0);
    const uint32x4_t first = vreinterpretq_u32_u16(vzip1q_u16(k[0], k[1]));
    const uint32x4_t second = vreinterpretq_u32_u16(vzip1q_u16(k[2], k[3]));
    vstore(out, vreinterpretq_f32_u32(vzip1q_u32(first, second)));
    vstore(out + kLanes, vreinterpretq_f32_u32(vzip2q_u32(first, second)));
  }

  /// Adds the products of `words` words (an even number) to the sums, and advances both panel pointers past
  /// them. The sums are tiles of 2 x 2: for two rows and the four columns of a vector, the first row of `sum`
  /// has the tile of columns 0 and 1, and the second row has the tile of columns 2 and 3. The panels have
  /// kTileRows and kTileVectors * kLanes lines.
  template <int kRows>
  static HWS_INLINE void multiply_steps(int64_t words, const float*& a, const float*& b,
                                        vf (&sum)[kRows][kTileVectors]) {
    for (; words > 0; words -= kStepWords) {
      bfloat16x8_t columns[kTileVectors][2];
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        columns[v][0] = pairs(vload(b + v * 2 * kLanes));
        columns[v][1] = pairs(vload(b + v * 2 * kLanes + kLanes));
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; r += 2) {
        const bfloat16x8_t rows = pairs(vload(a + 2 * r));
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) {
          sum[r][v] = vbfmmlaq_f32(sum[r][v], rows, columns[v][0]);
          sum[r + 1][v] = vbfmmlaq_f32(sum[r + 1][v], rows, columns[v][1]);
        }
      }
      a += kStepWords * kTileRows;
      b += kStepWords * kTileVectors * kLanes;
    }
  }

  /// Turns the sums of 2 x 2 tiles into rows.
  template <int kRows>
  static HWS_INLINE void make_rows(vf (&sum)[kRows][kTileVectors]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; r += 2) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        const float64x2_t x = vreinterpretq_f64_f32(sum[r][v]), y = vreinterpretq_f64_f32(sum[r + 1][v]);
        sum[r][v] = vreinterpretq_f32_f64(vzip1q_f64(x, y));
        sum[r + 1][v] = vreinterpretq_f32_f64(vzip2q_f64(x, y));
      }
    }
  }

  template <class E, int kVectors>
  static HWS_INLINE void store_row(E* p, const vf (&x)[kVectors]) {
    if constexpr (__is_same(E, uint16_t)) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v += 2) vst1q_u16(p + v * kLanes, words(x[v], x[v + 1]));
    } else {
      F32Words::store_row(p, x);
    }
  }
  template <class E>
  static HWS_INLINE void store_rest(E* p, vf x, int n) {
    F32Words::store_rest(p, x, n);
  }

 private:
  static HWS_INLINE bfloat16x8_t pairs(vf x) { return vreinterpretq_bf16_f32(x); }
  /// Rounds eight values to nearest even.
  static HWS_INLINE uint16x8_t words(vf low, vf high) {
    return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
  }
  static HWS_INLINE vf rounded(vf low, vf high) { return vreinterpretq_f32_u16(words(low, high)); }

  /// Returns up to four adjacent values in the lower half of a vector.
  static HWS_INLINE uint16x8_t narrow(const uint16_t* p, int lines) {
    if (lines == kLanes) return vcombine_u16(vld1_u16(p), vdup_n_u16(0));
    uint16_t t[8] = {};
    for (int i = 0; i < lines; ++i) t[i] = p[i];
    return vld1q_u16(t);
  }
  static HWS_INLINE uint16x8_t narrow(const float* p, int lines) { return words(vload_n(p, lines), vzero()); }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
