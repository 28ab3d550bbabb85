// The words that make up tiles of attention: 32-bit words of one or two adjacent values, as in the matrix
// product (matmul_words.h). A words type defines how words are read from memory, made from probabilities in
// registers, and multiplied. This is the fp32 type; attention_words_wide.h has the type of narrow
// values that are widened, and the level's header names the file of Bf16TileWords.
#pragma once

#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

struct F32TileWords {
  using Product = F32TileWords;  ///< the type whose multiply_add is used: products are compiled for it once
  static constexpr int kPerWord = 1;

  static HWS_INLINE vf multiply_add(vf a, vf b, vf sum) { return vfma(a, b, sum); }

  /// 2^x: exp2 for sums and lse; exp2_for_words if only words are made of the result.
  template <class V>
  static HWS_INLINE V exp2(V x) {
    return vexp2(x);
  }
  template <class V>
  static HWS_INLINE V exp2_for_words(V x) {
    return vexp2(x);
  }

  /// Returns kLanes words along a line: its next n values, 0 < n <= kLanes * kPerWord; the rest 0.
  template <class E>
  static HWS_INLINE vf along(const E* p, int n) {
    return load_n(p, n);
  }

  /// Returns words across kPerWord adjacent lines (here one): kLanes columns of them.
  static HWS_INLINE vf across(vf first, vf) { return first; }

  /// Returns a value rounded as in a word.
  static HWS_INLINE vf rounded(vf x) { return x; }

  /// Stores two adjacent lines as words along them, ld floats between the lines.
  static HWS_INLINE void store_lines(float* to, int64_t ld, vf first, vf second) {
    vstore(to, first);
    vstore(to + ld, second);
  }
  /// Stores two adjacent lines as words across them.
  static HWS_INLINE void store_across(float* to, int64_t ld, vf first, vf second) {
    store_lines(to, ld, first, second);
  }
};

/// The powers of words that are rounded to a narrow type, as in F32TileWords.
template <int kDegreeForWords>
struct CoarsePowers {
  template <class V>
  static HWS_INLINE V exp2(V x) {
    return vexp2_coarse<4>(x);
  }
  template <class V>
  static HWS_INLINE V exp2_for_words(V x) {
    return vexp2_coarse<kDegreeForWords>(x);
  }
};

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
