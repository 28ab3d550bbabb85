// Products of sizes that come from a caller or a file. They saturate instead of wrapping, so that a later
// check finds them too large.
#pragma once

#include <cstdint>

namespace hawser {

/// a * b for non-negative numbers, or INT64_MAX if that overflows.
constexpr int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

}  // namespace hawser
