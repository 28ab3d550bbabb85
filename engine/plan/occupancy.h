// Occupancy: records which bytes of the arena are in use during which instructions, and finds the lowest
// range that is free for a whole lifetime. Placing n slots over n instructions takes O(n log n) node visits.
//
// The data structure is a segment tree over instructions. A lifetime covers at most 2 log n nodes. Each node
// keeps the union of the bytes of lifetimes that cover it entirely, and of lifetimes that begin in it.
// Consecutive micro-batches reuse the same bytes, so these unions stay short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace hawser::plan {

/// Disjoint byte ranges in ascending order.
class ByteRanges {
 public:
  struct Range {
    int64_t begin, end;
  };
  /// `memory` must outlive this object.
  explicit ByteRanges(std::pmr::memory_resource* memory) : ranges_(memory) {}
  void add(int64_t begin, int64_t end);
  bool empty() const { return ranges_.empty(); }

  /// Walks upwards over the ranges; no range may be added meanwhile.
  class Cursor {
   public:
    explicit Cursor(const ByteRanges& of) : next_(of.ranges_.data()), end_(next_ + of.ranges_.size()) {}
    /// Raises `at`, which must be no lower than in the last call, to the lowest offset with [at, at + bytes)
    /// outside all ranges. Returns true if `at` has changed.
    bool raise(int64_t* at, int64_t bytes);

   private:
    const Range *next_, *end_;
  };

 private:
  std::pmr::vector<Range> ranges_;
};

class Occupancy {
 public:
  /// Creates an empty record for a plan with this many instructions.
  explicit Occupancy(size_t instructions);

  /// Marks bytes [begin, end) as used from instruction `first` to `last`, inclusive.
  void take(int32_t first, int32_t last, int64_t begin, int64_t end);
  /// Returns the lowest offset >= `from` at which `bytes` are free from instruction `first` to `last`,
  /// inclusive.
  int64_t lowest_free(int32_t first, int32_t last, int64_t bytes, int64_t from);

 private:
  struct Node {
    explicit Node(std::pmr::memory_resource* memory) : covering(memory), beginning(memory) {}
    ByteRanges covering, beginning;
  };
  template <typename Fn>
  void each_whole(int32_t first, int32_t last, Fn fn) const;
  template <typename Fn>
  void each_above(int32_t at, Fn fn) const;

  size_t leaves_;
  std::pmr::monotonic_buffer_resource memory_;  // of all nodes: a heap would spend more time than the search
  std::vector<ByteRanges::Cursor> cursors_;     // cursors of the last lowest_free
  std::vector<Node> nodes_;                     // nodes_[1] is the root; the children of i are 2i and 2i + 1
};

}  // namespace hawser::plan
