// Bf16TileWords for BFDOT of 64-bit Arm: a word holds two adjacent values, which the instruction multiplies
// and adds. simd/neonbf16.h describes its arithmetic.
#pragma once

#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct Bf16TileWords : CoarsePowers<3> {
  using Product = Bf16TileWords;
  static constexpr int kPerWord = 2;

  static HWS_INLINE vf multiply_add(vf a, vf b, vf sum) {
    return vbfdotq_f32(sum, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b));
  }

  static HWS_INLINE vf rounded(vf x) { return through<uint16_t>(x); }

  template <class E>
  static HWS_INLINE vf along(const E* p, int n) {
    if (n <= kLanes) return halves(load_n(p, n), vzero());
    return halves(load(p), load_n(p + kLanes, n - kLanes));
  }

  static HWS_INLINE vf across(vf first, vf second) {
    const uint16x8_t x = vreinterpretq_u16_f32(halves(first, second));
    return vreinterpretq_f32_u16(vzip1q_u16(x, vextq_u16(x, x, kLanes)));
  }

  static HWS_INLINE void store_lines(float* to, int64_t ld, vf first, vf second) {
    const vf x = halves(first, second);
    vst1_f32(to, vget_low_f32(x));
    vst1_f32(to + ld, vget_high_f32(x));
  }
  static HWS_INLINE void store_across(float* to, int64_t, vf first, vf second) {
    vstore(to, across(first, second));
  }

 private:
  /// Returns four values of `first`, then four of `second`, rounded to nearest even.
  static HWS_INLINE vf halves(vf first, vf second) {
    return vreinterpretq_f32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(first), second));
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
