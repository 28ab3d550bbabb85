// Flat shards: a run of elements cut into equal parts, padded at its end and never dropped.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hawser::mesh {

/// Shards begin at multiples of this many elements, the blocks over which gradient norms are summed, so that
/// sharding never changes a norm.
inline constexpr int64_t kShardAlign = 64;

struct FlatRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// Elements of each of `parts` shards of `elements`, padding included.
inline int64_t shard_elements(int64_t elements, int64_t parts) {
  const int64_t share = (elements + parts - 1) / parts;
  return (share + kShardAlign - 1) / kShardAlign * kShardAlign;
}

/// Elements of all shards together: what a padded buffer holds.
inline int64_t padded_elements(int64_t elements, int64_t parts) {
  return parts * shard_elements(elements, parts);
}

/// The real elements of shard `index`; empty where a shard is padding only.
inline FlatRange shard_range(int64_t elements, int64_t parts, int64_t index) {
  const int64_t share = shard_elements(elements, parts);
  return {std::min(elements, index * share), std::min(elements, (index + 1) * share)};
}

}  // namespace hawser::mesh
