// The vector operations of the two x86-64-v4 levels: AVX-512 F, BW, DQ and VL, sixteen lanes. Their meanings
// are those of generic.h, except that vfma and vfnma round once.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/scalar.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

using vf = __m512;

constexpr int kLanes = 16;

// The tile of C of the matrix product that one micro-kernel keeps in registers: rows, and vectors in a row.
constexpr int kTileRows = 12, kTileVectors = 2;

HWS_INLINE vf vset(float x) { return _mm512_set1_ps(x); }
HWS_INLINE vf vzero() { return _mm512_setzero_ps(); }
HWS_INLINE vf viota() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

HWS_INLINE vf vadd(vf a, vf b) { return _mm512_add_ps(a, b); }
HWS_INLINE vf vsub(vf a, vf b) { return _mm512_sub_ps(a, b); }
HWS_INLINE vf vmul(vf a, vf b) { return _mm512_mul_ps(a, b); }
HWS_INLINE vf vdiv(vf a, vf b) { return _mm512_div_ps(a, b); }
HWS_INLINE vf vfma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
HWS_INLINE vf vfnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
HWS_INLINE vf vsqrt(vf a) { return _mm512_sqrt_ps(a); }

HWS_INLINE vf vselect_lt(vf a, vf b, vf x, vf y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
HWS_INLINE vf vselect_le(vf a, vf b, vf x, vf y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ), y, x);
}
HWS_INLINE vf vselect_eq(vf a, vf b, vf x, vf y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), y, x);
}
HWS_INLINE bool vany_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
HWS_INLINE vf vmax(vf a, vf b) { return _mm512_max_ps(a, b); }
HWS_INLINE vf vmin(vf a, vf b) { return _mm512_min_ps(a, b); }
HWS_INLINE vf vabs(vf a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
HWS_INLINE vf vneg(vf a) { return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a); }
HWS_INLINE vf vcopysign(vf magnitude, vf sign) {
  return _mm512_or_ps(vabs(magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}

/// Nearest integer, ties to even.
HWS_INLINE vf vround(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

/// Returns a * 2^n for integer-valued n, rounded once.
HWS_INLINE vf vscale2(vf a, vf n) { return _mm512_scalef_ps(a, n); }

/// Return x - floor(x), and a * 2^floor(x).
HWS_INLINE vf vfraction(vf x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
HWS_INLINE vf vscale2_whole(vf a, vf x) { return _mm512_scalef_ps(a, x); }

HWS_INLINE float vsum(vf a) {
  const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
HWS_INLINE float vhmax(vf a) {
  const __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

/// Returns a mask with one bit for each of the first n lanes.
HWS_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

HWS_INLINE vf vload(const float* p) { return _mm512_loadu_ps(p); }
HWS_INLINE void vstore(float* p, vf v) { _mm512_storeu_ps(p, v); }
HWS_INLINE vf vload_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
HWS_INLINE void vstore_n(float* p, vf v, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }

HWS_INLINE vf widen_bf16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
HWS_INLINE __m256i round_bf16(vf v) {
  const __m512i u = _mm512_castps_si512(v), high = _mm512_srli_epi32(u, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i round = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, round), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40)));
}

HWS_INLINE vf vload_bf16(const uint16_t* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HWS_INLINE void vstore_bf16(uint16_t* p, vf v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_bf16(v));
}
HWS_INLINE vf vload_bf16_n(const uint16_t* p, int n) {
  return widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
HWS_INLINE void vstore_bf16_n(uint16_t* p, vf v, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), round_bf16(v));
}

HWS_INLINE vf vload_f16(const Half* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HWS_INLINE __m256i round_f16(vf v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
HWS_INLINE void vstore_f16(Half* p, vf v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_f16(v));
}
HWS_INLINE vf vload_f16_n(const Half* p, int n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
HWS_INLINE void vstore_f16_n(Half* p, vf v, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), round_f16(v));
}

/// Store two vectors as bf16 or halves to a complete cache line at p, bypassing the caches. Call
/// vstream_end() before another thread reads it.
HWS_INLINE void vstream_words(void* p, __m256i first, __m256i second) {
  _mm512_stream_si512(static_cast<__m512i*>(p), _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
}
HWS_INLINE void vstream(uint16_t* p, vf first, vf second) {
  vstream_words(p, round_bf16(first), round_bf16(second));
}
HWS_INLINE void vstream(Half* p, vf first, vf second) {
  vstream_words(p, round_f16(first), round_f16(second));
}
HWS_INLINE void vstream(float* p, vf first, vf second) {
  vstore(p, first);
  vstore(p + kLanes, second);
}
HWS_INLINE void vstream_end() { _mm_sfence(); }

using vd = __m512d;
HWS_INLINE vd vload_widened(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
HWS_INLINE vd vfma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
HWS_INLINE double vsum(vd a) {
  const __m256d b = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
  const __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
  return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}

typedef uint64_t vu64 __attribute__((vector_size(64)));
HWS_INLINE vu64 vmul_low_halves(vu64 a, vu64 b) { return (vu64)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
HWS_INLINE vu64 vfirst_of_pairs(vu64 a, vu64 b) {
  return (vu64)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
}
HWS_INLINE vu64 vsecond_of_pairs(vu64 a, vu64 b) {
  return (vu64)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
}

// Codes of records (block_record.h): a byte, or four bits of one, for each lane.

/// Return signed integers as floats: bytes, and the low and the high four bits of bytes.
HWS_INLINE vf vload_i8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
HWS_INLINE vf vload_low4(const uint8_t* p) {
  const __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(x, 28), 28));
}
HWS_INLINE vf vload_high4(const uint8_t* p) {
  const __m512i x = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(x, 4));
}
/// Store the low eight bits of each lane, and the low four bits of both vectors' lanes.
HWS_INLINE void vstore_i8(uint8_t* p, vf x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_castps_si512(x)));
}
HWS_INLINE void vstore_i4(uint8_t* p, vf low, vf high) {
  const __m512i l = _mm512_and_si512(_mm512_castps_si512(low), _mm512_set1_epi32(15));
  const __m512i h = _mm512_slli_epi32(_mm512_castps_si512(high), 4);
  vstore_i8(p, _mm512_castsi512_ps(_mm512_or_si512(l, h)));
}
/// Return the larger of two vectors, and the largest lane, by the bits of numbers without a sign.
HWS_INLINE vf vmax_bits(vf a, vf b) {
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
HWS_INLINE int32_t vhmax_bits(vf a) { return _mm512_reduce_max_epi32(_mm512_castps_si512(a)); }

/// Transposes rows in place.
HWS_INLINE void vtranspose(vf rows[16]) {
  vf a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // b[4g + c] holds column c of each 4x4 block of row group g
    b[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {  // then the 4x4 grid of 128-bit lanes is transposed
    const vf even01 = _mm512_shuffle_f32x4(b[c], b[c + 4], 0x88);
    const vf odd01 = _mm512_shuffle_f32x4(b[c], b[c + 4], 0xdd);
    const vf even23 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0x88);
    const vf odd23 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0xdd);
    rows[c] = _mm512_shuffle_f32x4(even01, even23, 0x88);
    rows[c + 4] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
    rows[c + 8] = _mm512_shuffle_f32x4(even01, even23, 0xdd);
    rows[c + 12] = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/row_values.h"
