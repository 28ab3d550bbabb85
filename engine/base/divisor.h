// Group size for two-hop collectives: splits n members into a near-square grid, so that each member sends to
// the fewest others.
#pragma once

#include <cstdint>

namespace hawser {

/// The largest divisor of n >= 1 that is at most its square root.
constexpr int64_t divisor_at_root(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) best = d;
  return best;
}

}  // namespace hawser
