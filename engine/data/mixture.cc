// Mixture: implements the tree of shares.
#include "engine/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"

namespace hawser::data {
namespace {

__extension__ typedef unsigned __int128 Wide;

/// Returns floor(n * share / 2^64 + 1/2): how many of the first n samples go left.
uint64_t left_of(uint64_t n, uint64_t share) {
  return static_cast<uint64_t>((static_cast<Wide>(n) * share + (Wide{1} << 63)) >> 64);
}

/// Returns p * 2^64, clamped to [1, 2^64 - 1] so that every source gets samples.
uint64_t to_share(double p) {
  const double scaled = std::ldexp(p, 64);
  if (scaled < 1.0) return 1;
  if (scaled >= std::ldexp(1.0, 64)) return ~uint64_t{0};
  return static_cast<uint64_t>(scaled);
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) {
  if (weights.empty()) fail(Code::kInvalidArgument, "a mixture needs at least one source");
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] <= 0) {
      fail(Code::kInvalidArgument, "weight of source {} is {}; weights must be finite and above 0", i,
           weights[i]);
    }
  }
  // Only ratios matter. Scaled to at most 1, their sums cannot overflow.
  const double largest = *std::max_element(weights.begin(), weights.end());
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(weight / largest);
  root_ = build(shares, 0, static_cast<int64_t>(shares.size()));
}

int32_t Mixture::build(const std::vector<double>& weights, int64_t first, int64_t last) {
  if (last - first < 2) return -1;
  const int64_t middle = first + (last - first) / 2;
  const double left = std::accumulate(weights.begin() + first, weights.begin() + middle, 0.0);
  const double right = std::accumulate(weights.begin() + middle, weights.begin() + last, 0.0);
  Node node;
  node.first = first;
  node.middle = middle;
  node.last = last;
  node.share = to_share(left / (left + right));
  node.left = build(weights, first, middle);
  node.right = build(weights, middle, last);
  nodes_.push_back(node);
  return static_cast<int32_t>(nodes_.size()) - 1;
}

Mixture::Pick Mixture::pick(uint64_t n) const {
  int64_t source = 0;
  for (int32_t at = root_; at >= 0;) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    const uint64_t before = left_of(n, node.share);
    // The next sample goes left if it raises the count. share * (n + 1) cannot be computed in 64 bits at n =
    // 2^64 - 1.
    const uint64_t after = n == ~uint64_t{0} ? before : left_of(n + 1, node.share);
    const bool go_left = after > before;
    n = go_left ? before : n - before;
    source = go_left ? node.first : node.middle;
    at = go_left ? node.left : node.right;
  }
  return {source, n};
}

}  // namespace hawser::data
