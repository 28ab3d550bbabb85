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

int64_t ByteRanges::lowest_free(int64_t from, int64_t bytes) const {
  auto range = std::upper_bound(ranges_.begin(), ranges_.end(), from,
                                [](int64_t at, const Range& r) { return at < r.end; });
  for (; range != ranges_.end() && range->begin < from + bytes; ++range) from = range->end;
  return from;
}

Occupancy::Occupancy(size_t instructions)
    : leaves_(std::bit_ceil(std::max<size_t>(instructions, 1))), nodes_(2 * leaves_) {}

/// Calls fn for the nodes that make up [first, last].
template <typename Fn>
void Occupancy::each_whole(int32_t first, int32_t last, Fn fn) const {
  size_t left = leaves_ + static_cast<size_t>(first), right = leaves_ + static_cast<size_t>(last) + 1;
  for (; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1) fn(left++);
    if (right % 2 == 1) fn(--right);
  }
}

/// Calls fn for all nodes on the paths from both ends of [first, last] to the root.
template <typename Fn>
void Occupancy::each_above(int32_t first, int32_t last, Fn fn) const {
  size_t left = leaves_ + static_cast<size_t>(first), right = leaves_ + static_cast<size_t>(last);
  for (; left != right; left /= 2, right /= 2) fn(left), fn(right);
  for (; left > 0; left /= 2) fn(left);
}

void Occupancy::take(int32_t first, int32_t last, int64_t begin, int64_t end) {
  each_whole(first, last, [&](size_t node) { nodes_[node].covering.add(begin, end); });
  each_above(first, last, [&](size_t node) { nodes_[node].reaching.add(begin, end); });
}

int64_t Occupancy::lowest_free(int32_t first, int32_t last, int64_t bytes, int64_t from) const {
  int64_t at = from, before;
  const auto raise = [&](const ByteRanges& taken) { at = taken.lowest_free(at, bytes); };
  do {
    before = at;
    each_above(first, last, [&](size_t node) { raise(nodes_[node].covering); });
    each_whole(first, last, [&](size_t node) { raise(nodes_[node].covering), raise(nodes_[node].reaching); });
  } while (at != before);
  return at;
}

}  // namespace hawser::plan
