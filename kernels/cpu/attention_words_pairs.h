// Bf16TileWords for AVX512-BF16: a word holds two adjacent values, which vdpbf16ps multiplies and adds in one
// instruction. The instruction treats subnormal bf16 values as zero.
#pragma once

#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct Bf16TileWords : CoarsePowers<3> {
  using Product = Bf16TileWords;
  static constexpr int kPerWord = 2;

  static HWS_INLINE vf multiply_add(vf a, vf b, vf sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }

  static HWS_INLINE vf rounded(vf x) { return widen_bf16((__m256i)_mm512_cvtneps_pbh(x)); }

  template <class E>
  static HWS_INLINE vf along(const E* p, int n) {
    if (n <= kLanes) return halves(load_n(p, n), vzero());
    return halves(load(p), load_n(p + kLanes, n - kLanes));
  }

  static HWS_INLINE vf across(vf first, vf second) { return interleaved(halves(first, second)); }

  static HWS_INLINE void store_lines(float* to, int64_t ld, vf first, vf second) {
    const __m512 x = halves(first, second);
    _mm256_storeu_ps(to, _mm512_castps512_ps256(x));
    _mm256_storeu_ps(to + ld, _mm512_extractf32x8_ps(x, 1));
  }
  static HWS_INLINE void store_across(float* to, int64_t, vf first, vf second) {
    vstore(to, across(first, second));
  }

 private:
  /// Returns sixteen values of `first`, then sixteen of `second`.
  static HWS_INLINE vf halves(vf first, vf second) { return (vf)_mm512_cvtne2ps_pbh(second, first); }

  static HWS_INLINE vf interleaved(vf x) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vf)_mm512_permutexvar_epi16(order, (__m512i)x);
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
