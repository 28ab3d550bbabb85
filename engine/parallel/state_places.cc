#include "engine/parallel/state_places.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace hawser::parallel {

StatePlaces::StatePlaces(std::vector<int64_t> begins, int64_t end, int64_t second)
    : begins_(std::move(begins)), end_(end), second_(begins_.size()), in_second_(begins_.size()) {
  distance_ = begins_.empty() ? 0 : second - begins_.front();
}

size_t StatePlaces::slot_of(int64_t at) const {
  return static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), at) - begins_.begin()) - 1;
}

int64_t StatePlaces::place(int64_t at, const std::vector<bool>& second) const {
  if (!are_two() || at >= end_) return at;
  const std::lock_guard lock(mutex_);
  return second[slot_of(at)] ? at + distance_ : at;
}

int64_t StatePlaces::now(int64_t at) const { return place(at, second_); }

int64_t StatePlaces::in_snapshot(int64_t at) const { return place(at, in_second_); }

std::optional<StatePlaces::Move> StatePlaces::leave_snapshot(int64_t at) {
  if (!are_two() || at >= end_) return {};
  const size_t slot = slot_of(at);
  const std::lock_guard lock(mutex_);
  if (!snapshot_ || second_[slot] != in_second_[slot]) return {};
  const int64_t begin = begins_[slot], end = slot + 1 < begins_.size() ? begins_[slot + 1] : end_;
  const bool was_second = second_[slot];
  second_[slot] = !was_second;
  return Move{begin + (was_second ? distance_ : 0), begin + (was_second ? 0 : distance_), end - begin};
}

void StatePlaces::begin_snapshot() {
  const std::lock_guard lock(mutex_);
  HWS_CHECK(!snapshot_);
  in_second_ = second_;
  snapshot_ = true;
}

void StatePlaces::end_snapshot() {
  const std::lock_guard lock(mutex_);
  snapshot_ = false;
}

}  // namespace hawser::parallel
