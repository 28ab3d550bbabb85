// Mixture: maps sample n of a weighted mix to a source and to a sample of that source, as a pure function of
// n. Nothing is random: at every n the shares are exact up to rounding, not only on average.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::data {

/// Const use is thread-safe and allocates nothing.
///
/// The sources are the leaves of a binary tree. A node whose left child has the share p of its weight sends
/// floor(n p + 1/2) of its first n samples left (Bresenham's line). The same formula gives the position
/// within the chosen child, so nothing is counted. A pick walks down the tree in O(log sources). Each level
/// is off by at most half a sample, scaled by the shares below it: two sources are never off by more than
/// 1/2, and no source by more than half the depth of the tree.
class Mixture {
 public:
  /// Takes at least one weight; weights are relative, finite and > 0 (kInvalidArgument otherwise).
  explicit Mixture(const std::vector<double>& weights);

  struct Pick {
    int64_t source = 0;
    uint64_t sample = 0;  ///< number of earlier samples from this source
  };
  /// Returns sample n of the mix.
  Pick pick(uint64_t n) const;

 private:
  /// Splits the sources [first, last) at `middle`; `share` / 2^64 of the samples go left.
  struct Node {
    int64_t first = 0, middle = 0, last = 0;
    int32_t left = -1, right = -1;  // child nodes; -1 if one source is left
    uint64_t share = 0;
  };
  int32_t build(const std::vector<double>& weights, int64_t first, int64_t last);

  std::vector<Node> nodes_;
  int32_t root_ = -1;
};

}  // namespace hawser::data
