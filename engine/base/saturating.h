// Products of sizes that a caller or a file gives: instead of wrapping they stop at the largest number, which
// is more than there is of anything, so that what compares them with what there is finds them too large.
#pragma once

#include <cstdint>

namespace hawser {

/// a * b of numbers that are not negative, or INT64_MAX.
constexpr int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

}  // namespace hawser
