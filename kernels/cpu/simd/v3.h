// The vector operations of x86-64-v3: AVX2, FMA and F16C, eight lanes. Their meanings are those of generic.h,
// except that vfma and vfnma round once.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/scalar.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

using vf = __m256;

constexpr int kLanes = 8;

// The tile of C of the matrix product that one micro-kernel keeps in registers: rows, and vectors in a row.
constexpr int kTileRows = 6, kTileVectors = 2;

HWS_INLINE vf vset(float x) { return _mm256_set1_ps(x); }
HWS_INLINE vf vzero() { return _mm256_setzero_ps(); }
HWS_INLINE vf viota() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }

HWS_INLINE vf vadd(vf a, vf b) { return _mm256_add_ps(a, b); }
HWS_INLINE vf vsub(vf a, vf b) { return _mm256_sub_ps(a, b); }
HWS_INLINE vf vmul(vf a, vf b) { return _mm256_mul_ps(a, b); }
HWS_INLINE vf vdiv(vf a, vf b) { return _mm256_div_ps(a, b); }
HWS_INLINE vf vfma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
HWS_INLINE vf vfnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
HWS_INLINE vf vsqrt(vf a) { return _mm256_sqrt_ps(a); }

HWS_INLINE vf vselect_lt(vf a, vf b, vf x, vf y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
HWS_INLINE vf vselect_le(vf a, vf b, vf x, vf y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LE_OQ));
}
HWS_INLINE vf vselect_eq(vf a, vf b, vf x, vf y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}
HWS_INLINE bool vany_gt(vf a, vf b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
HWS_INLINE vf vmax(vf a, vf b) { return _mm256_max_ps(a, b); }
HWS_INLINE vf vmin(vf a, vf b) { return _mm256_min_ps(a, b); }
HWS_INLINE vf vabs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
HWS_INLINE vf vneg(vf a) { return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a); }
HWS_INLINE vf vcopysign(vf magnitude, vf sign) {
  return _mm256_or_ps(vabs(magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

/// Nearest integer, ties to even.
HWS_INLINE vf vround(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
HWS_INLINE vf vfloor(vf a) { return _mm256_floor_ps(a); }

/// Returns a * 2^n for integer-valued n in [-252, 254], in two exact-power steps so that results may be
/// subnormal.
HWS_INLINE vf vscale2(vf a, vf n) {
  const __m256i k = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(k, 1), bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(k, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

HWS_INLINE float vsum(vf a) {
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
HWS_INLINE float vhmax(vf a) {
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/// Returns a mask with all ones in the first n lanes.
HWS_INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

HWS_INLINE vf vload(const float* p) { return _mm256_loadu_ps(p); }
HWS_INLINE void vstore(float* p, vf v) { _mm256_storeu_ps(p, v); }
HWS_INLINE vf vload_n(const float* p, int n) {
  return n == kLanes ? vload(p) : _mm256_maskload_ps(p, first_lanes(n));
}
/// A masked store takes a dozen cycles on AMD processors. Whole vectors do not need it. A panel of the matrix
/// product has kTileRows values a word, which are stored in two parts.
HWS_INLINE void vstore_n(float* p, vf v, int n) {
  static_assert(kTileRows == 6);
  if (n == kLanes) {
    vstore(p, v);
  } else if (__builtin_constant_p(n) && n == kTileRows) {
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storel_pi(reinterpret_cast<__m64*>(p + 4), _mm256_extractf128_ps(v, 1));
  } else {
    _mm256_maskstore_ps(p, first_lanes(n), v);
  }
}

HWS_INLINE vf vload_bf16(const uint16_t* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
/// Returns a word whose upper half is v rounded to bf16, ties to even. A NaN may become infinity or zero.
HWS_INLINE __m256i round_number(vf v) {
  const __m256i u = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
/// The same for any value: NaN becomes quiet.
HWS_INLINE __m256i round_any(vf v) {
  const vf quiet = _mm256_or_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x400000)));
  return _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(round_number(v)), quiet, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
HWS_INLINE void vstore_bf16(uint16_t* p, vf v) {
  const __m256i x = _mm256_srli_epi32(round_any(v), 16);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
HWS_INLINE vf vload_bf16_n(const uint16_t* p, int n) {
  if (n == kLanes) return vload_bf16(p);
  if (__builtin_constant_p(n) && n == kTileRows) {
    int32_t rest;
    __builtin_memcpy(&rest, p + 4, sizeof rest);
    const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i x = _mm_insert_epi32(first, rest, 2);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  uint16_t t[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return vload_bf16(t);
}
HWS_INLINE void vstore_bf16_n(uint16_t* p, vf v, int n) {
  if (n == kLanes) return vstore_bf16(p, v);
  uint16_t t[8];
  vstore_bf16(t, v);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}

HWS_INLINE vf vload_f16(const Half* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
HWS_INLINE void vstore_f16(Half* p, vf v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
HWS_INLINE vf vload_f16_n(const Half* p, int n) {
  if (n == kLanes) return vload_f16(p);
  Half t[8] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return vload_f16(t);
}
HWS_INLINE void vstore_f16_n(Half* p, vf v, int n) {
  if (n == kLanes) return vstore_f16(p, v);
  Half t[8];
  vstore_f16(t, v);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}

using vd = __m256d;
HWS_INLINE vd vload_widened(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
HWS_INLINE vd vfma(vd a, vd b, vd c) { return _mm256_fmadd_pd(a, b, c); }
HWS_INLINE double vsum(vd a) {
  const __m128d b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}

typedef uint64_t vu64 __attribute__((vector_size(32)));
HWS_INLINE vu64 vmul_low_halves(vu64 a, vu64 b) { return (vu64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
HWS_INLINE vu64 vfirst_of_pairs(vu64 a, vu64 b) {
  return (vu64)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
}
HWS_INLINE vu64 vsecond_of_pairs(vu64 a, vu64 b) {
  return (vu64)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
}

// Codes of records (block_record.h): a byte, or four bits of one, for each lane.

/// Return signed integers as floats: bytes, and the low and the high four bits of bytes.
HWS_INLINE vf vload_i8(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
HWS_INLINE vf vload_low4(const uint8_t* p) {
  const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(x, 28), 28));
}
HWS_INLINE vf vload_high4(const uint8_t* p) {
  const __m256i x = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(x, 4));
}
/// Store the low eight bits of each lane, and the low four bits of both vectors' lanes.
HWS_INLINE void vstore_i8(uint8_t* p, vf x) {
  const __m256i low_bytes = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                                             4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_castps_si256(x), low_bytes);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p),
                   _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
}
HWS_INLINE void vstore_i4(uint8_t* p, vf low, vf high) {
  const __m256i l = _mm256_and_si256(_mm256_castps_si256(low), _mm256_set1_epi32(15));
  const __m256i h = _mm256_slli_epi32(_mm256_castps_si256(high), 4);
  vstore_i8(p, _mm256_castsi256_ps(_mm256_or_si256(l, h)));
}
/// Return the larger of two vectors, and the largest lane, by the bits of numbers without a sign.
HWS_INLINE vf vmax_bits(vf a, vf b) {
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
HWS_INLINE int32_t vhmax_bits(vf a) {
  const __m256i x = _mm256_castps_si256(a);
  const __m128i b = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i c = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}

/// Transposes rows in place.
HWS_INLINE void vtranspose(vf rows[8]) {
  vf a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL

#include "kernels/cpu/simd/exponent.h"
#include "kernels/cpu/simd/group.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Compares the bits of magnitudes as integers, because those of NaN are greater than those of any number.
template <int N>
HWS_INLINE bool vwithin(const Group<N>& x, float bound) {
  vf greatest = vabs(x.v[0]);
#pragma GCC unroll 8
  for (int i = 1; i < N; ++i) greatest = vmax_bits(greatest, vabs(x.v[i]));
  const __m256i beyond = _mm256_cmpgt_epi32(_mm256_castps_si256(greatest), _mm256_castps_si256(vset(bound)));
  return __builtin_expect(_mm256_testz_si256(beyond, beyond), 1) != 0;
}

/// Adds n to the exponents of a. Results are normal, so this is exact.
template <int N>
HWS_INLINE Group<N> vscale2_near(const Group<N>& a, const Group<N>& n) {
  Group<N> y;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    const __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n.v[i]), 23);
    y.v[i] = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.v[i]), power));
  }
  return y;
}

/// For |x| <= 124: x - floor(x), and a * 2^floor(x).
template <int N>
HWS_INLINE Group<N> vfraction(const Group<N>& x) {
  return vsub(x, vfloor(x));
}
template <int N>
HWS_INLINE Group<N> vscale2_whole(const Group<N>& a, const Group<N>& x) {
  return vscale2_near(a, vfloor(x));
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL

#include "kernels/cpu/simd/math.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

HWS_INLINE bool any_nan(vf a, vf b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0; }

template <>
HWS_INLINE vf through<uint16_t>(vf x) {
  return _mm256_castsi256_ps(_mm256_and_si256(round_any(x), _mm256_set1_epi32(-0x10000)));
}

/// Vectors of even and odd elements need no shuffling.
template <int N>
requires(N % 2 == 0) HWS_INLINE Group<N> load_any_order(const uint16_t* p) {
  Group<N> x;
#pragma GCC unroll 8
  for (int i = 0; i < N; i += 2) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i * kLanes));
    x.v[i] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    x.v[i + 1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(-0x10000)));
  }
  return x;
}
template <int N>
requires(N % 2 == 0) HWS_INLINE void store_any_order(uint16_t* p, const Group<N>& x) {
#pragma GCC unroll 8
  for (int i = 0; i < N; i += 2) {
    __m256i even = round_number(x.v[i]), odd = round_number(x.v[i + 1]);
    if (__builtin_expect(any_nan(x.v[i], x.v[i + 1]), 0))
      even = round_any(x.v[i]), odd = round_any(x.v[i + 1]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + i * kLanes),
                        _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa));
  }
}

/// Two vectors at a time need one comparison with NaN, and one packing.
template <int N>
requires(N % 2 == 0) HWS_INLINE void store(uint16_t* p, const Group<N>& x) {
#pragma GCC unroll 8
  for (int i = 0; i < N; i += 2) {
    __m256i a = round_number(x.v[i]), b = round_number(x.v[i + 1]);
    if (__builtin_expect(any_nan(x.v[i], x.v[i + 1]), 0)) a = round_any(x.v[i]), b = round_any(x.v[i + 1]);
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + i * kLanes), _mm256_permute4x64_epi64(packed, 0xd8));
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL

#include "kernels/cpu/simd/plain_stream.h"
#include "kernels/cpu/simd/row_values.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_bf16.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_bf16.h"
