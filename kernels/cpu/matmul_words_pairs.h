// Bf16Words for AVX512-BF16: a word holds two adjacent values of k, which vdpbf16ps multiplies and adds in
// one instruction. The instruction treats subnormal bf16 values as zero.
#pragma once

#include "kernels/cpu/matmul_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct Bf16Words {
  using Product = Bf16Words;
  static constexpr int kPerWord = 2, kStepWords = 1;

  static HWS_INLINE vf along_k(const uint16_t* p) { return _mm512_castsi512_ps(_mm512_loadu_si512(p)); }
  static HWS_INLINE vf along_k(const uint16_t* p, int nk) {
    const auto mask = static_cast<__mmask32>((uint64_t{1} << nk) - 1u);
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, p));
  }
  static HWS_INLINE vf along_k(const float* p) { return round_pair(vload(p), vload(p + 16)); }
  static HWS_INLINE vf along_k(const float* p, int nk) {
    const int first = nk < 16 ? nk : 16;
    return round_pair(vload_n(p, first), vload_n(p + first, nk - first));
  }

  static HWS_INLINE vf across(const uint16_t* p, int64_t ld, int nk) {
    const __m256i* second = reinterpret_cast<const __m256i*>(p + ld);
    return interleave(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                      nk > 1 ? _mm256_loadu_si256(second) : _mm256_setzero_si256());
  }
  static HWS_INLINE vf across(const uint16_t* p, int64_t ld, int nk, int columns) {
    const __mmask16 mask = first_lanes(columns);
    return interleave(_mm256_maskz_loadu_epi16(mask, p),
                      nk > 1 ? _mm256_maskz_loadu_epi16(mask, p + ld) : _mm256_setzero_si256());
  }
  static HWS_INLINE vf across(const float* p, int64_t ld, int nk) {
    return shuffled(round_pair(vload(p), nk > 1 ? vload(p + ld) : vzero()));
  }
  static HWS_INLINE vf across(const float* p, int64_t ld, int nk, int columns) {
    return shuffled(round_pair(vload_n(p, columns), nk > 1 ? vload_n(p + ld, columns) : vzero()));
  }

  /// Like across, for 32 adjacent lines: two vectors of words.
  static HWS_INLINE void across_line(float* out, const uint16_t* p, int64_t ld) {
    const __m512i even = _mm512_loadu_si512(p), odd = _mm512_loadu_si512(p + ld);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi16(even, _mm512_load_si512(kPairs), odd));
    _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi16(even, _mm512_load_si512(kPairs + 32), odd));
  }

  /// Like across, for 48 adjacent lines: three vectors of words, which are divided into four panels of 12.
  static HWS_INLINE void across_panels(float* out, int64_t panel_words, const uint16_t* p, int64_t ld,
                                       int nk) {
    const __m512i even = _mm512_loadu_si512(p);
    const __m256i even_rest = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
    const __m512i odd = nk > 1 ? _mm512_loadu_si512(p + ld) : _mm512_setzero_si512();
    const __m256i odd_rest =
        nk > 1 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + ld + 32)) : _mm256_setzero_si256();
    const __m512i low = _mm512_load_si512(kPairs), high = _mm512_load_si512(kPairs + 32);
    const __m512i a = _mm512_permutex2var_epi16(even, low, odd);
    const __m512i b = _mm512_permutex2var_epi16(even, high, odd);
    const __m512i c =
        _mm512_permutex2var_epi16(_mm512_castsi256_si512(even_rest), low, _mm512_castsi256_si512(odd_rest));
    constexpr __mmask16 kTwelve = 0x0fff;
    _mm512_mask_storeu_epi32(out, kTwelve, a);
    _mm512_mask_storeu_epi32(out + panel_words, kTwelve, _mm512_alignr_epi32(b, a, 12));
    _mm512_mask_storeu_epi32(out + 2 * panel_words, kTwelve, _mm512_alignr_epi32(c, b, 8));
    _mm512_mask_storeu_epi32(out + 3 * panel_words, kTwelve, _mm512_alignr_epi32(c, c, 4));
  }

  static HWS_INLINE vf multiply_add(vf a, vf b, vf sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }

  template <class E>
  static HWS_INLINE void store_row(E* p, const vf (&x)[2]) {
    if constexpr (__is_same(E, uint16_t)) {
      _mm512_storeu_ps(p, round_pair(x[0], x[1]));
    } else {
      F32Words::store_row(p, x);
    }
  }
  template <class E>
  static HWS_INLINE void store_rest(E* p, vf x, int n) {
    if constexpr (__is_same(E, uint16_t)) {
      _mm256_mask_storeu_epi16(p, first_lanes(n), (__m256i)_mm512_cvtneps_pbh(x));
    } else {
      F32Words::store_rest(p, x, n);
    }
  }

 private:
  /// Indices of the 32 values of two vectors that make 16 words, then of those that make the next 16.
  alignas(64) static constexpr uint16_t kPairs[64] = {
      0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
      11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
      22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  /// Rounds 16 values, then 16 more, to nearest even. Subnormal values become zero, as in the product.
  static HWS_INLINE vf round_pair(vf low, vf high) { return (vf)_mm512_cvtne2ps_pbh(high, low); }
  /// Combines 16 values and then their 16 neighbours in k to 16 words.
  static HWS_INLINE vf shuffled(vf halves) {
    alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                        21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                        11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_castsi512_ps(
        _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), _mm512_castps_si512(halves)));
  }
  static HWS_INLINE vf interleave(__m256i even, __m256i odd) {
    const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16);
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_cvtepu16_epi32(even), high));
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
