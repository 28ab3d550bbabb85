// WideTileWords: words of narrow values (bf16 or half), which are rounded to the narrow type, then stored and
// multiplied as fp32.
#pragma once

#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

template <class Narrow>
struct WideTileWords {
  using Product = F32TileWords;
  static constexpr int kPerWord = 1;

  static HWS_INLINE vf rounded(vf x) { return through<Narrow>(x); }

  template <class V>
  static HWS_INLINE V exp2(V x) {
    return vexp2_coarse<4>(x);
  }
  /// Rounding to a half has smaller errors than the coarsest power.
  template <class V>
  static HWS_INLINE V exp2_for_words(V x) {
    constexpr int kDegree = __is_same(Narrow, Half) ? 4 : 3;
    return vexp2_coarse<kDegree>(x);
  }

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

using F16TileWords = WideTileWords<Half>;

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
