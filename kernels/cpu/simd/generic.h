// The vector operations for any architecture: four lanes of the compiler's own vector type, no fused
// multiply-add. The other levels define the same names with the same meaning; math.h adds exp, tanh and erf.
#pragma once

#include "kernels/cpu/simd/scalar.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

constexpr int kLanes = 4;

// The tile of C of the matrix product that one micro-kernel keeps in registers: rows, and vectors in a row.
constexpr int kTileRows = 4, kTileVectors = 2;

HWS_INLINE vf vset(float x) { return vf{x, x, x, x}; }
HWS_INLINE vf vzero() { return vf{0, 0, 0, 0}; }
HWS_INLINE vf viota() { return vf{0, 1, 2, 3}; }

HWS_INLINE vf vadd(vf a, vf b) { return a + b; }
HWS_INLINE vf vsub(vf a, vf b) { return a - b; }
HWS_INLINE vf vmul(vf a, vf b) { return a * b; }
HWS_INLINE vf vdiv(vf a, vf b) { return a / b; }
HWS_INLINE vf vfma(vf a, vf b, vf c) { return a * b + c; }
HWS_INLINE vf vfnma(vf a, vf b, vf c) { return c - a * b; }
HWS_INLINE vf vsqrt(vf a) {
  return vf{__builtin_sqrtf(a[0]), __builtin_sqrtf(a[1]), __builtin_sqrtf(a[2]), __builtin_sqrtf(a[3])};
}

HWS_INLINE vf vblend(vi mask, vf x, vf y) { return (vf)((mask & (vi)x) | (~mask & (vi)y)); }
HWS_INLINE vf vselect_lt(vf a, vf b, vf x, vf y) { return vblend((vi)(a < b), x, y); }
HWS_INLINE vf vselect_le(vf a, vf b, vf x, vf y) { return vblend((vi)(a <= b), x, y); }
HWS_INLINE vf vselect_eq(vf a, vf b, vf x, vf y) { return vblend((vi)(a == b), x, y); }
HWS_INLINE bool vany_gt(vf a, vf b) {
  const vi x = (vi)(a > b);
  return (x[0] | x[1] | x[2] | x[3]) != 0;
}
HWS_INLINE vf vmax(vf a, vf b) { return vblend((vi)(a > b), a, b); }
HWS_INLINE vf vmin(vf a, vf b) { return vblend((vi)(a < b), a, b); }
HWS_INLINE vf vabs(vf a) { return (vf)((vu)a & 0x7fffffffu); }
HWS_INLINE vf vneg(vf a) { return (vf)((vu)a ^ 0x80000000u); }
HWS_INLINE vf vcopysign(vf magnitude, vf sign) {
  return (vf)(((vu)magnitude & 0x7fffffffu) | ((vu)sign & 0x80000000u));
}

/// Nearest integer, ties to even, for |a| < 2^22.
HWS_INLINE vf vround(vf a) { return (a + 12582912.0f) - 12582912.0f; }
HWS_INLINE vf vfloor(vf a) {
  const vf n = vround(a);
  return n - vselect_lt(a, n, vset(1.0f), vzero());
}

/// a * 2^n for integer-valued n in [-252, 254], in two exact-power steps so that results may be subnormal.
HWS_INLINE vf vscale2(vf a, vf n) {
  const vu k = (vu)(n + 12582912.0f) - 0x4b400000u;  // n as an integer, modulo 2^32
  const vu half = (vu)((vi)k >> 1);
  return a * (vf)((half + 127u) << 23) * (vf)((k - half + 127u) << 23);
}

HWS_INLINE float vsum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
HWS_INLINE float vhmax(vf a) {
  const float x = a[0] > a[2] ? a[0] : a[2], y = a[1] > a[3] ? a[1] : a[3];
  return x > y ? x : y;
}

HWS_INLINE vf vload(const float* p) {
  vf v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
HWS_INLINE void vstore(float* p, vf v) { __builtin_memcpy(p, &v, sizeof(v)); }
HWS_INLINE vf vload_n(const float* p, int n) {
  if (n == kLanes) return vload(p);
  vf v = vzero();
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
HWS_INLINE void vstore_n(float* p, vf v, int n) {
  if (n == kLanes) return vstore(p, v);
  for (int i = 0; i < n; ++i) p[i] = v[i];
}

HWS_INLINE vf vload_bf16(const uint16_t* p) { return (vf)(vu{p[0], p[1], p[2], p[3]} << 16); }
HWS_INLINE vf vload_bf16_n(const uint16_t* p, int n) {
  if (n == kLanes) return vload_bf16(p);
  vf v = vzero();
  for (int i = 0; i < n; ++i) v[i] = bf16_to_f32(p[i]);
  return v;
}
HWS_INLINE void vstore_bf16(uint16_t* p, vf v) {
  for (int i = 0; i < 4; ++i) p[i] = f32_to_bf16(v[i]);
}
HWS_INLINE void vstore_bf16_n(uint16_t* p, vf v, int n) {
  if (n == kLanes) return vstore_bf16(p, v);
  for (int i = 0; i < n; ++i) p[i] = f32_to_bf16(v[i]);
}

HWS_INLINE vf vload_f16_n(const Half* p, int n) {
  vf v = vzero();
  for (int i = 0; i < n; ++i) v[i] = f16_to_f32(static_cast<uint16_t>(p[i]));
  return v;
}
HWS_INLINE void vstore_f16_n(Half* p, vf v, int n) {
  for (int i = 0; i < n; ++i) p[i] = static_cast<Half>(f32_to_f16(v[i]));
}
HWS_INLINE vf vload_f16(const Half* p) { return vload_f16_n(p, 4); }
HWS_INLINE void vstore_f16(Half* p, vf v) { vstore_f16_n(p, v, 4); }

/// A vector of half as many doubles; + and * are the compiler's.
typedef double vd __attribute__((vector_size(16)));
HWS_INLINE vd vfma(vd a, vd b, vd c) { return a * b + c; }
HWS_INLINE vd vload_widened(const float* p) { return vd{p[0], p[1]}; }
/// Adds halves until one element is left, starting with lane i and lane i + lanes / 2.
HWS_INLINE double vsum(vd a) { return a[0] + a[1]; }

/// A vector of 64-bit lanes; operators are the compiler's, as for vd.
typedef uint64_t vu64 __attribute__((vector_size(16)));
/// Returns the full products of the low halves.
HWS_INLINE vu64 vmul_low_halves(vu64 a, vu64 b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
/// Take, from each pair of lanes, the first (or the second) of a, then that of b.
HWS_INLINE vu64 vfirst_of_pairs(vu64 a, vu64 b) { return vu64{a[0], b[0]}; }
HWS_INLINE vu64 vsecond_of_pairs(vu64 a, vu64 b) { return vu64{a[1], b[1]}; }

// Codes of records (block_record.h): a byte, or four bits of one, for each lane.

HWS_INLINE float low4(uint8_t byte) { return static_cast<float>(((byte & 15) ^ 8) - 8); }
HWS_INLINE float high4(uint8_t byte) { return low4(static_cast<uint8_t>(byte >> 4)); }
HWS_INLINE float signed8(uint8_t byte) { return static_cast<float>((byte ^ 128) - 128); }
/// Return signed integers as floats: bytes, and the low and the high four bits of bytes.
HWS_INLINE vf vload_i8(const uint8_t* p) {
  return vf{signed8(p[0]), signed8(p[1]), signed8(p[2]), signed8(p[3])};
}
HWS_INLINE vf vload_low4(const uint8_t* p) { return vf{low4(p[0]), low4(p[1]), low4(p[2]), low4(p[3])}; }
HWS_INLINE vf vload_high4(const uint8_t* p) { return vf{high4(p[0]), high4(p[1]), high4(p[2]), high4(p[3])}; }
/// Store the low eight bits of each lane, and the low four bits of both vectors' lanes.
HWS_INLINE void vstore_i8(uint8_t* p, vf x) {
  const vu u = (vu)x;
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<uint8_t>(u[i]);
}
HWS_INLINE void vstore_i4(uint8_t* p, vf low, vf high) {
  vstore_i8(p, (vf)(((vu)low & 15u) | ((vu)high << 4)));
}
/// Return the larger of two vectors, and the largest lane, by the bits of numbers without a sign.
HWS_INLINE vf vmax_bits(vf a, vf b) { return vblend((vi)a > (vi)b, a, b); }
HWS_INLINE int32_t vhmax_bits(vf a) {
  const vi v = (vi)a;
  const int32_t x = v[0] > v[2] ? v[0] : v[2], y = v[1] > v[3] ? v[1] : v[3];
  return x > y ? x : y;
}

/// Transposes rows in place.
HWS_INLINE void vtranspose(vf rows[4]) {
  const vf a = rows[0], b = rows[1], c = rows[2], d = rows[3];
  rows[0] = vf{a[0], b[0], c[0], d[0]};
  rows[1] = vf{a[1], b[1], c[1], d[1]};
  rows[2] = vf{a[2], b[2], c[2], d[2]};
  rows[3] = vf{a[3], b[3], c[3], d[3]};
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL

#include "kernels/cpu/simd/exponent.h"
#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/plain_stream.h"
#include "kernels/cpu/simd/row_values.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_bf16.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_bf16.h"
