// The types with which attention is compiled: words of products, and elements of q, k and v.
#pragma once

#include "kernels/cpu/attention_words_wide.h"
#include "kernels/include/attention.h"
#include HWS_ATTENTION_BF16_WORDS

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Calls body(words, element) with values of the words type of products and of the type of q, k and v.
template <class Body>
HWS_INLINE auto with_words(const AttentionShape& s, const Body& body) {
  switch (product_type(s)) {
    case DType::kBf16:
      return s.type == DType::kBf16 ? body(Bf16TileWords{}, uint16_t{}) : body(Bf16TileWords{}, float{});
    case DType::kF16:
      return s.type == DType::kF16 ? body(F16TileWords{}, Half{}) : body(F16TileWords{}, float{});
    default:
      return body(F32TileWords{}, float{});
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
