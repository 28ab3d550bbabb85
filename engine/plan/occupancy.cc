#include "engine/plan/occupancy.h"

#include <algorithm>
#include <bit>

namespace hawser::plan {

void ByteRanges::add(int64_t begin, int64_t end) {
  const auto first = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                                      [](const Range& r, int64_t at) { return r.end < at; });
  auto last = first;
  for (; last != ranges_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    ranges_.insert(first, {begin, end});
  } else {
    *first = {begin, end};
    ranges_.erase(first + 1, last);
  }
}

bool ByteRanges::Cursor::raise(int64_t* at, int64_t bytes) {
  while (next_ != end_ && next_->end <= *at) ++next_;
  if (next_ == end_ || next_->begin >= *at + bytes) return false;
  for (; next_ != end_ && next_->begin < *at + bytes; ++next_) *at = next_->end;
  return true;
}

Occupancy::Occupancy(size_t instructions) : leaves_(std::bit_ceil(std::max<size_t>(instructions, 1))) {
  nodes_.reserve(2 * leaves_);
  for (size_t i = 0; i < 2 * leaves_; ++i) nodes_.emplace_back(&memory_);
}

/// Calls fn for the nodes that make up [first, last].
template <typename Fn>
void Occupancy::each_whole(int32_t first, int32_t last, Fn fn) const {
  size_t left = leaves_ + static_cast<size_t>(first), right = leaves_ + static_cast<size_t>(last) + 1;
  for (; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1) fn(left++);
    if (right % 2 == 1) fn(--right);
  }
}

/// Calls fn for all nodes on the path from an instruction to the root.
template <typename Fn>
void Occupancy::each_above(int32_t at, Fn fn) const {
  for (size_t node = leaves_ + static_cast<size_t>(at); node > 0; node /= 2) fn(node);
}

void Occupancy::take(int32_t first, int32_t last, int64_t begin, int64_t end) {
  each_whole(first, last, [&](size_t node) { nodes_[node].covering.add(begin, end); });
  each_above(first, [&](size_t node) { nodes_[node].beginning.add(begin, end); });
}

/// Two lifetimes overlap if one of them begins during the other. Walks over the ranges of the nodes until
/// none raises the offset. The offset never falls, so each node is walked once. Every rise returns to the
/// largest node of the lifetime, because its ranges leave the fewest gaps.
int64_t Occupancy::lowest_free(int32_t first, int32_t last, int64_t bytes, int64_t from) {
  cursors_.clear();
  const auto walk = [&](const ByteRanges& taken) {
    if (!taken.empty()) cursors_.emplace_back(taken);
  };
  each_above(first, [&](size_t node) { walk(nodes_[node].covering); });
  each_whole(first, last, [&](size_t node) { walk(nodes_[node].beginning); });
  int64_t at = from;
  for (size_t c = cursors_.size(); c-- > 0;)
    if (cursors_[c].raise(&at, bytes)) c = cursors_.size();
  return at;
}

}  // namespace hawser::plan
