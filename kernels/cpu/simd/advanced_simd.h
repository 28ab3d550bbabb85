// The vector operations of armv8-a and armv8.2-a+bf16: Advanced SIMD (NEON) of every 64-bit Arm processor,
// four lanes. Their meanings are those of generic.h, except that vfma and vfnma round once.
#pragma once

#include <arm_neon.h>

#include "kernels/cpu/simd/scalar.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

using vf = float32x4_t;

constexpr int kLanes = 4;

// The tile of C of the matrix product that one micro-kernel keeps in registers: rows, and vectors in a row.
// Of 32 registers, 24 hold sums, 3 the values of op(a), and 2 those of op(b).
constexpr int kTileRows = 12, kTileVectors = 2;

HWS_INLINE vf vset(float x) { return vdupq_n_f32(x); }
HWS_INLINE vf vzero() { return vdupq_n_f32(0.0f); }
HWS_INLINE vf viota() { return vf{0, 1, 2, 3}; }

HWS_INLINE vf vadd(vf a, vf b) { return vaddq_f32(a, b); }
HWS_INLINE vf vsub(vf a, vf b) { return vsubq_f32(a, b); }
HWS_INLINE vf vmul(vf a, vf b) { return vmulq_f32(a, b); }
HWS_INLINE vf vdiv(vf a, vf b) { return vdivq_f32(a, b); }
HWS_INLINE vf vfma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
HWS_INLINE vf vfnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
HWS_INLINE vf vsqrt(vf a) { return vsqrtq_f32(a); }

HWS_INLINE vf vselect_lt(vf a, vf b, vf x, vf y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
HWS_INLINE vf vselect_le(vf a, vf b, vf x, vf y) { return vbslq_f32(vcleq_f32(a, b), x, y); }
HWS_INLINE vf vselect_eq(vf a, vf b, vf x, vf y) { return vbslq_f32(vceqq_f32(a, b), x, y); }
HWS_INLINE bool vany_gt(vf a, vf b) { return vmaxvq_u32(vcgtq_f32(a, b)) != 0; }
// FMAX and FMAXNM treat NaN in other ways: these return their second operand if they cannot order the two.
HWS_INLINE vf vmax(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
HWS_INLINE vf vmin(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
HWS_INLINE vf vabs(vf a) { return vabsq_f32(a); }
HWS_INLINE vf vneg(vf a) { return vnegq_f32(a); }
HWS_INLINE vf vcopysign(vf magnitude, vf sign) {
  return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude);
}

/// Nearest integer, ties to even.
HWS_INLINE vf vround(vf a) { return vrndnq_f32(a); }
HWS_INLINE vf vfloor(vf a) { return vrndmq_f32(a); }

/// Returns a * 2^n for integer-valued n in [-252, 254], in two exact-power steps so that results may be
/// subnormal.
HWS_INLINE vf vscale2(vf a, vf n) {
  const int32x4_t k = vcvtq_s32_f32(n), half = vshrq_n_s32(k, 1), bias = vdupq_n_s32(127);
  const int32x4_t first = vshlq_n_s32(vaddq_s32(half, bias), 23);
  const int32x4_t second = vshlq_n_s32(vaddq_s32(vsubq_s32(k, half), bias), 23);
  return vmulq_f32(vmulq_f32(a, vreinterpretq_f32_s32(first)), vreinterpretq_f32_s32(second));
}

HWS_INLINE float vsum(vf a) { return vpadds_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a))); }
HWS_INLINE float vhmax(vf a) {
  const float32x2_t low = vget_low_f32(a), high = vget_high_f32(a);
  const float32x2_t b = vbsl_f32(vcgt_f32(low, high), low, high);
  return b[0] > b[1] ? b[0] : b[1];
}

HWS_INLINE vf vload(const float* p) { return vld1q_f32(p); }
HWS_INLINE void vstore(float* p, vf v) { vst1q_f32(p, v); }
HWS_INLINE vf vload_n(const float* p, int n) {
  if (n == kLanes) return vload(p);
  float t[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return vload(t);
}
HWS_INLINE void vstore_n(float* p, vf v, int n) {
  if (n == kLanes) return vstore(p, v);
  float t[4];
  vstore(t, v);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}

HWS_INLINE vf vload_bf16(const uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
HWS_INLINE uint16x4_t round_bf16(vf v) {
  const uint32x4_t u = vreinterpretq_u32_f32(v), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  const uint32x4_t round = vaddq_u32(odd, vdupq_n_u32(0x7fff));
  const uint16x4_t quiet = vorr_u16(vshrn_n_u32(u, 16), vdup_n_u16(0x40));
  return vbsl_u16(vmovn_u32(vceqq_f32(v, v)), vshrn_n_u32(vaddq_u32(u, round), 16), quiet);
}
HWS_INLINE void vstore_bf16(uint16_t* p, vf v) { vst1_u16(p, round_bf16(v)); }
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

HWS_INLINE vf vload_f16(const Half* p) {
  float16x4_t x;
  __builtin_memcpy(&x, p, sizeof x);
  return vcvt_f32_f16(x);
}
HWS_INLINE void vstore_f16(Half* p, vf v) {
  const float16x4_t x = vcvt_f16_f32(v);
  __builtin_memcpy(p, &x, sizeof x);
}
HWS_INLINE vf vload_f16_n(const Half* p, int n) {
  if (n == kLanes) return vload_f16(p);
  Half t[4] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return vload_f16(t);
}
HWS_INLINE void vstore_f16_n(Half* p, vf v, int n) {
  if (n == kLanes) return vstore_f16(p, v);
  Half t[4];
  vstore_f16(t, v);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}

using vd = float64x2_t;
HWS_INLINE vd vload_widened(const float* p) { return vcvt_f64_f32(vld1_f32(p)); }
HWS_INLINE vd vfma(vd a, vd b, vd c) { return vfmaq_f64(c, a, b); }
HWS_INLINE double vsum(vd a) { return vpaddd_f64(a); }

using vu64 = uint64x2_t;
HWS_INLINE vu64 vmul_low_halves(vu64 a, vu64 b) { return vmull_u32(vmovn_u64(a), vmovn_u64(b)); }
HWS_INLINE vu64 vfirst_of_pairs(vu64 a, vu64 b) { return vzip1q_u64(a, b); }
HWS_INLINE vu64 vsecond_of_pairs(vu64 a, vu64 b) { return vzip2q_u64(a, b); }

// Codes of records (block_record.h): a byte, or four bits of one, for each lane.

/// Returns four bytes, twice.
HWS_INLINE int8x8_t vload_bytes(const uint8_t* p) {
  uint32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return vreinterpret_s8_u32(vdup_n_u32(four));
}
HWS_INLINE vf widen_i8(int8x8_t x) { return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(x)))); }
/// Return signed integers as floats: bytes, and the low and the high four bits of bytes.
HWS_INLINE vf vload_i8(const uint8_t* p) { return widen_i8(vload_bytes(p)); }
HWS_INLINE vf vload_low4(const uint8_t* p) { return widen_i8(vshr_n_s8(vshl_n_s8(vload_bytes(p), 4), 4)); }
HWS_INLINE vf vload_high4(const uint8_t* p) { return widen_i8(vshr_n_s8(vload_bytes(p), 4)); }
/// Store the low eight bits of each lane, and the low four bits of both vectors' lanes.
HWS_INLINE void vstore_u8(uint8_t* p, uint32x4_t x) {
  const uint16x4_t narrow = vmovn_u32(x);
  const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(narrow, narrow))), 0);
  __builtin_memcpy(p, &four, sizeof four);
}
HWS_INLINE void vstore_i8(uint8_t* p, vf x) { vstore_u8(p, vreinterpretq_u32_f32(x)); }
HWS_INLINE void vstore_i4(uint8_t* p, vf low, vf high) {
  const uint32x4_t l = vandq_u32(vreinterpretq_u32_f32(low), vdupq_n_u32(15));
  vstore_u8(p, vorrq_u32(l, vshlq_n_u32(vreinterpretq_u32_f32(high), 4)));
}
/// Return the larger of two vectors, and the largest lane, by the bits of numbers without a sign.
HWS_INLINE vf vmax_bits(vf a, vf b) {
  return vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}
HWS_INLINE int32_t vhmax_bits(vf a) { return vmaxvq_s32(vreinterpretq_s32_f32(a)); }

/// Transposes rows in place.
HWS_INLINE void vtranspose(vf rows[4]) {
  const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(rows[0], rows[1]));
  const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(rows[0], rows[1]));
  const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(rows[2], rows[3]));
  const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(rows[2], rows[3]));
  rows[0] = vreinterpretq_f32_f64(vzip1q_f64(a, c));
  rows[1] = vreinterpretq_f32_f64(vzip1q_f64(b, d));
  rows[2] = vreinterpretq_f32_f64(vzip2q_f64(a, c));
  rows[3] = vreinterpretq_f32_f64(vzip2q_f64(b, d));
}

/// The values of op(a) for the rows of a tile. A multiply-add takes them from a lane of a register, so a few
/// loads replace a load for each row.
template <int kRows>
struct TileRowValues {
  vf v[(kRows + kLanes - 1) / kLanes];
  HWS_INLINE explicit TileRowValues(const float* a) {
#pragma GCC unroll 4
    for (int i = 0; i < (kRows + kLanes - 1) / kLanes; ++i) v[i] = vload(a + i * kLanes);
  }
  HWS_INLINE vf operator[](int r) const { return vset(v[r / kLanes][r % kLanes]); }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL

#include "kernels/cpu/simd/exponent.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/plain_stream.h"
