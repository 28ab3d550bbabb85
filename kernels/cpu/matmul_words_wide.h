// Bf16Words for processors without bf16 arithmetic: values are widened to fp32 while they are packed (fp32
// values are rounded to bf16 first) and multiplied as fp32.
#pragma once

#include "kernels/cpu/matmul_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

HWS_INLINE vf round_through_bf16(vf x) {
  uint16_t rounded[kLanes];
  vstore_bf16(rounded, x);
  return vload_bf16(rounded);
}

struct Bf16Words {
  static constexpr int kPerWord = 1;

  static HWS_INLINE vf along_k(const uint16_t* p) { return vload_bf16(p); }
  static HWS_INLINE vf along_k(const uint16_t* p, int nk) { return vload_bf16_n(p, nk); }
  static HWS_INLINE vf along_k(const float* p) { return round_through_bf16(vload(p)); }
  static HWS_INLINE vf along_k(const float* p, int nk) { return round_through_bf16(vload_n(p, nk)); }

  static HWS_INLINE vf across(const uint16_t* p, int64_t, int) { return vload_bf16(p); }
  static HWS_INLINE vf across(const uint16_t* p, int64_t, int, int n) { return vload_bf16_n(p, n); }
  static HWS_INLINE vf across(const float* p, int64_t, int) { return round_through_bf16(vload(p)); }
  static HWS_INLINE vf across(const float* p, int64_t, int, int n) {
    return round_through_bf16(vload_n(p, n));
  }

  static HWS_INLINE vf multiply_add(vf a, vf b, vf sum) { return vfma(a, b, sum); }

  template <int kVectors>
  static HWS_INLINE void store_bf16(uint16_t* p, const vf (&x)[kVectors]) {
    F32Words::store_bf16(p, x);
  }
  static HWS_INLINE void store_bf16(uint16_t* p, vf x, int n) { F32Words::store_bf16(p, x, n); }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
