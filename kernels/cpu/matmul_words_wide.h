// WideWords: words of narrow values (bf16 or half) that are widened to fp32 while they are packed (fp32
// values are rounded to the narrow type first) and multiplied as fp32.
#pragma once

#include "kernels/cpu/matmul_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

template <class Narrow>
struct WideWords {
  using Product = F32Words;
  static constexpr int kPerWord = 1, kStepWords = 1;

  static HWS_INLINE vf along_k(const Narrow* p) { return load(p); }
  static HWS_INLINE vf along_k(const Narrow* p, int nk) { return load_n(p, nk); }
  static HWS_INLINE vf along_k(const float* p) { return through<Narrow>(vload(p)); }
  static HWS_INLINE vf along_k(const float* p, int nk) { return through<Narrow>(vload_n(p, nk)); }

  static HWS_INLINE vf across(const Narrow* p, int64_t, int) { return load(p); }
  static HWS_INLINE vf across(const Narrow* p, int64_t, int, int n) { return load_n(p, n); }
  static HWS_INLINE vf across(const float* p, int64_t, int) { return through<Narrow>(vload(p)); }
  static HWS_INLINE vf across(const float* p, int64_t, int, int n) { return through<Narrow>(vload_n(p, n)); }
};

using F16Words = WideWords<Half>;

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
