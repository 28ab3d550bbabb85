// WideTileWords: words of narrow values (bf16 or half), which are rounded to the narrow type, then stored and
// multiplied as fp32.
#pragma once

#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Rounding to a half has smaller errors than the coarsest power.
template <class Narrow>
struct WideTileWords : CoarsePowers<__is_same(Narrow, Half) ? 4 : 3> {
  using Product = F32TileWords;
  static constexpr int kPerWord = 1;

  static HWS_INLINE vf rounded(vf x) { return through<Narrow>(x); }

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
