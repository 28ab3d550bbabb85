// Bf16TileWords for processors without bf16 arithmetic: values are rounded to bf16, then stored and
// multiplied as fp32.
#pragma once

#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct Bf16TileWords {
  using Product = F32TileWords;
  static constexpr int kPerWord = 1;

  static HWS_INLINE vf rounded(vf x) {
    uint16_t bits[kLanes];
    vstore_bf16(bits, x);
    return vload_bf16(bits);
  }

  static HWS_INLINE vf exp2(vf x) { return vexp2_coarse<4>(x); }
  static HWS_INLINE vf exp2_for_words(vf x) { return vexp2_coarse<3>(x); }

  template <class E>
  static HWS_INLINE vf along(const E* p, int n) {
    return rounded(load_n(p, n));
  }

  static HWS_INLINE vf across(vf first, vf) { return rounded(first); }

  static HWS_INLINE void store_lines(float* to, int64_t ld, vf first, vf second) {
    vstore(to, rounded(first));
    vstore(to + ld, rounded(second));
  }
  static HWS_INLINE void store_across(float* to, int64_t ld, vf first, vf second) {
    store_lines(to, ld, first, second);
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
