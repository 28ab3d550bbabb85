// The vector operations of x86-64-v2: SSE4.1, four lanes, no fused multiply-add. Their meanings are those of
// generic.h.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/scalar.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

using vf = __m128;

constexpr int kLanes = 4;

// The tile of C of the matrix product that one micro-kernel keeps in registers: rows, and vectors in a row.
constexpr int kTileRows = 4, kTileVectors = 2;

HWS_INLINE vf vset(float x) { return _mm_set1_ps(x); }
HWS_INLINE vf vzero() { return _mm_setzero_ps(); }
HWS_INLINE vf viota() { return _mm_setr_ps(0, 1, 2, 3); }

HWS_INLINE vf vadd(vf a, vf b) { return _mm_add_ps(a, b); }
HWS_INLINE vf vsub(vf a, vf b) { return _mm_sub_ps(a, b); }
HWS_INLINE vf vmul(vf a, vf b) { return _mm_mul_ps(a, b); }
HWS_INLINE vf vdiv(vf a, vf b) { return _mm_div_ps(a, b); }
HWS_INLINE vf vfma(vf a, vf b, vf c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
HWS_INLINE vf vfnma(vf a, vf b, vf c) { return _mm_sub_ps(c, _mm_mul_ps(a, b)); }
HWS_INLINE vf vsqrt(vf a) { return _mm_sqrt_ps(a); }

HWS_INLINE vf vselect_lt(vf a, vf b, vf x, vf y) { return _mm_blendv_ps(y, x, _mm_cmplt_ps(a, b)); }
HWS_INLINE vf vselect_le(vf a, vf b, vf x, vf y) { return _mm_blendv_ps(y, x, _mm_cmple_ps(a, b)); }
HWS_INLINE vf vselect_eq(vf a, vf b, vf x, vf y) { return _mm_blendv_ps(y, x, _mm_cmpeq_ps(a, b)); }
HWS_INLINE bool vany_gt(vf a, vf b) { return _mm_movemask_ps(_mm_cmpgt_ps(a, b)) != 0; }
HWS_INLINE vf vmax(vf a, vf b) { return _mm_max_ps(a, b); }
HWS_INLINE vf vmin(vf a, vf b) { return _mm_min_ps(a, b); }
HWS_INLINE vf vabs(vf a) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), a); }
HWS_INLINE vf vneg(vf a) { return _mm_xor_ps(_mm_set1_ps(-0.0f), a); }
HWS_INLINE vf vcopysign(vf magnitude, vf sign) {
  return _mm_or_ps(vabs(magnitude), _mm_and_ps(_mm_set1_ps(-0.0f), sign));
}

/// Nearest integer, ties to even.
HWS_INLINE vf vround(vf a) { return _mm_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
HWS_INLINE vf vfloor(vf a) { return _mm_floor_ps(a); }

/// Returns a * 2^n for integer-valued n in [-252, 254], in two exact-power steps so that results may be
/// subnormal.
HWS_INLINE vf vscale2(vf a, vf n) {
  const __m128i k = _mm_cvtps_epi32(n), half = _mm_srai_epi32(k, 1), bias = _mm_set1_epi32(127);
  const __m128i first = _mm_slli_epi32(_mm_add_epi32(half, bias), 23);
  const __m128i second = _mm_slli_epi32(_mm_add_epi32(_mm_sub_epi32(k, half), bias), 23);
  return _mm_mul_ps(_mm_mul_ps(a, _mm_castsi128_ps(first)), _mm_castsi128_ps(second));
}

HWS_INLINE float vsum(vf a) {
  const vf b = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
HWS_INLINE float vhmax(vf a) {
  const vf b = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

HWS_INLINE vf vload(const float* p) { return _mm_loadu_ps(p); }
HWS_INLINE void vstore(float* p, vf v) { _mm_storeu_ps(p, v); }
HWS_INLINE vf vload_n(const float* p, int n) {
  if (n == kLanes) return vload(p);
  float t[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return _mm_loadu_ps(t);
}
HWS_INLINE void vstore_n(float* p, vf v, int n) {
  if (n == kLanes) return vstore(p, v);
  float t[4];
  _mm_storeu_ps(t, v);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}

HWS_INLINE vf vload_bf16(const uint16_t* p) {
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), x));
}
HWS_INLINE void vstore_bf16(uint16_t* p, vf v) {
  const __m128i u = _mm_castps_si128(v), high = _mm_srli_epi32(u, 16);
  const __m128i round = _mm_add_epi32(_mm_and_si128(high, _mm_set1_epi32(1)), _mm_set1_epi32(0x7fff));
  const __m128i rounded = _mm_srli_epi32(_mm_add_epi32(u, round), 16);
  const __m128i nan = _mm_castps_si128(_mm_cmpunord_ps(v, v));
  const __m128i result = _mm_blendv_epi8(rounded, _mm_or_si128(high, _mm_set1_epi32(0x40)), nan);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi32(result, result));
}
HWS_INLINE vf vload_bf16_n(const uint16_t* p, int n) {
  if (n == kLanes) return vload_bf16(p);
  uint16_t t[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return vload_bf16(t);
}
HWS_INLINE void vstore_bf16_n(uint16_t* p, vf v, int n) {
  if (n == kLanes) return vstore_bf16(p, v);
  uint16_t t[4];
  vstore_bf16(t, v);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}

HWS_INLINE vf vload_f16_n(const Half* p, int n) {
  float t[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; ++i) t[i] = f16_to_f32(static_cast<uint16_t>(p[i]));
  return _mm_loadu_ps(t);
}
HWS_INLINE void vstore_f16_n(Half* p, vf v, int n) {
  float t[4];
  _mm_storeu_ps(t, v);
  for (int i = 0; i < n; ++i) p[i] = static_cast<Half>(f32_to_f16(t[i]));
}
HWS_INLINE vf vload_f16(const Half* p) { return vload_f16_n(p, 4); }
HWS_INLINE void vstore_f16(Half* p, vf v) { vstore_f16_n(p, v, 4); }

using vd = __m128d;
HWS_INLINE vd vfma(vd a, vd b, vd c) { return a * b + c; }
HWS_INLINE vd vload_widened(const float* p) {
  return _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
HWS_INLINE double vsum(vd a) { return _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a))); }

typedef uint64_t vu64 __attribute__((vector_size(16)));
HWS_INLINE vu64 vmul_low_halves(vu64 a, vu64 b) { return (vu64)_mm_mul_epu32((__m128i)a, (__m128i)b); }
HWS_INLINE vu64 vfirst_of_pairs(vu64 a, vu64 b) { return (vu64)_mm_unpacklo_epi64((__m128i)a, (__m128i)b); }
HWS_INLINE vu64 vsecond_of_pairs(vu64 a, vu64 b) { return (vu64)_mm_unpackhi_epi64((__m128i)a, (__m128i)b); }

// Codes of records (block_record.h): a byte, or four bits of one, for each lane.

HWS_INLINE __m128i vload_bytes(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm_cvtsi32_si128(four);
}
/// Return signed integers as floats: bytes, and the low and the high four bits of bytes.
HWS_INLINE vf vload_i8(const uint8_t* p) { return _mm_cvtepi32_ps(_mm_cvtepi8_epi32(vload_bytes(p))); }
HWS_INLINE vf vload_low4(const uint8_t* p) {
  return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_slli_epi32(_mm_cvtepu8_epi32(vload_bytes(p)), 28), 28));
}
HWS_INLINE vf vload_high4(const uint8_t* p) {
  return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_cvtepi8_epi32(vload_bytes(p)), 4));
}
/// Store the low eight bits of each lane, and the low four bits of both vectors' lanes.
HWS_INLINE void vstore_i8(uint8_t* p, vf x) {
  const __m128i low_bytes = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const int32_t four = _mm_cvtsi128_si32(_mm_shuffle_epi8(_mm_castps_si128(x), low_bytes));
  __builtin_memcpy(p, &four, sizeof four);
}
HWS_INLINE void vstore_i4(uint8_t* p, vf low, vf high) {
  const __m128i l = _mm_and_si128(_mm_castps_si128(low), _mm_set1_epi32(15));
  const __m128i h = _mm_slli_epi32(_mm_castps_si128(high), 4);
  vstore_i8(p, _mm_castsi128_ps(_mm_or_si128(l, h)));
}
/// Return the larger of two vectors, and the largest lane, by the bits of numbers without a sign.
HWS_INLINE vf vmax_bits(vf a, vf b) {
  return _mm_castsi128_ps(_mm_max_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
}
HWS_INLINE int32_t vhmax_bits(vf a) {
  const __m128i x = _mm_castps_si128(a), b = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(b, _mm_shuffle_epi32(b, 0xb1)));
}

/// Transposes rows in place.
HWS_INLINE void vtranspose(vf rows[4]) { _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]); }

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL

#include "kernels/cpu/simd/exponent.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/plain_stream.h"
#include "kernels/cpu/simd/row_values.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_bf16.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_bf16.h"
