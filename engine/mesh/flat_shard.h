// Flat shards: a range of elements divided into equal parts, with padding at the end.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hawser::mesh {

/// Shards start at multiples of this many elements. Gradient norms are summed over blocks of this size, so
/// sharding never changes a norm.
inline constexpr int64_t kShardAlign = 64;

struct FlatRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// Elements in each of `parts` shards, including padding.
inline int64_t shard_elements(int64_t elements, int64_t parts) {
  const int64_t share = (elements + parts - 1) / parts;
  return (share + kShardAlign - 1) / kShardAlign * kShardAlign;
}

/// Elements of all shards together: the size of a padded buffer.
inline int64_t padded_elements(int64_t elements, int64_t parts) {
  return parts * shard_elements(elements, parts);
}

/// The elements of shard `index` without padding; empty if it is all padding.
inline FlatRange shard_range(int64_t elements, int64_t parts, int64_t index) {
  const int64_t share = shard_elements(elements, parts);
  return {std::min(elements, index * share), std::min(elements, (index + 1) * share)};
}

}  // namespace hawser::mesh
