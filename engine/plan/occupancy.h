// Occupancy: which bytes of the arena are taken during which instructions, and the lowest bytes that are free
// for a whole lifetime. Placing n slots over n instructions takes O(n log n) such steps.
//
// A segment tree over instructions. A lifetime is cut into at most 2 log n nodes. Each node keeps the union
// of the bytes of lifetimes that cover all of it, and of lifetimes that reach into it. Micro-batches take the
// same bytes after each other, so these unions stay short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hawser::plan {

/// Disjoint ranges of bytes, ascending.
class ByteRanges {
 public:
  void add(int64_t begin, int64_t end);
  /// The lowest at >= `from` with [at, at + bytes) outside all ranges.
  int64_t lowest_free(int64_t from, int64_t bytes) const;

 private:
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> ranges_;
};

class Occupancy {
 public:
  /// Of a plan with so many instructions.
  explicit Occupancy(size_t instructions);

  /// Bytes [begin, end) are taken from instruction `first` to `last`, both included.
  void take(int32_t first, int32_t last, int64_t begin, int64_t end);
  /// The lowest offset >= `from` at which `bytes` are free from instruction `first` to `last`.
  int64_t lowest_free(int32_t first, int32_t last, int64_t bytes, int64_t from) const;

 private:
  struct Node {
    ByteRanges covering, reaching;
  };
  template <typename Fn>
  void each_whole(int32_t first, int32_t last, Fn fn) const;
  template <typename Fn>
  void each_above(int32_t first, int32_t last, Fn fn) const;

  size_t leaves_;
  std::vector<Node> nodes_;  // 1 is the root; 2i and 2i + 1 stand below i
};

}  // namespace hawser::plan
