// StatePlaces: two places in a rank's file for each slot of state, so that a save reads the state of one
// moment while steps go on. Steps write a slot that the save still needs to its other place.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace hawser::parallel {

class StatePlaces {
 public:
  /// Each slot has one place: where the plan says.
  StatePlaces() = default;
  /// `begins`: first bytes of the slots, ascending. `end`: the end of the last. Their second places begin at
  /// byte `second`.
  StatePlaces(std::vector<int64_t> begins, int64_t end, int64_t second);

  bool are_two() const { return !begins_.empty(); }

  // Thread-safe. `at` is a byte as the plan places it; bytes beyond the slots are their own place.

  /// The place of byte `at` in the present state.
  int64_t now(int64_t at) const;
  /// The place of byte `at` in the snapshot.
  int64_t in_snapshot(int64_t at) const;

  struct Move {
    int64_t from, to, bytes;
  };
  /// Call before byte `at` changes. If the snapshot has its slot, the present state moves to the other place:
  /// returns that move, of the whole slot, whose bytes the caller copies or overwrites.
  std::optional<Move> leave_snapshot(int64_t at);
  /// The present state becomes the snapshot, until end_snapshot.
  void begin_snapshot();
  void end_snapshot();

 private:
  size_t slot_of(int64_t at) const;
  int64_t place(int64_t at, const std::vector<bool>& second) const;

  std::vector<int64_t> begins_;
  int64_t end_ = 0, distance_ = 0;
  mutable std::mutex mutex_;              // guards the members below
  std::vector<bool> second_, in_second_;  // by slot: the present state, the snapshot is in the second place
  bool snapshot_ = false;
};

}  // namespace hawser::parallel
