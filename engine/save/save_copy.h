// SaveCopy: a rank's copy of what it writes to a checkpoint, so that training can continue during the write.
// It lies outside the arena. It is allocated with the engine if the config saves asynchronously, and then
// leaves out state on disk that has second places (parallel/state_places.h). Otherwise it is allocated at the
// first asynchronous save, for all state. It is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/stream.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/device/arena.h"
#include "engine/device/host_link.h"

namespace hawser::train {

class SaveCopy {
 public:
  /// Lays out `pieces` in the copy, except lasting ones, allocating memory if needed. `in_place`: the pieces
  /// are in host memory, so a synchronous save needs no copy. Throws kOutOfMemory (needed, available, what to
  /// do) and then leaves the previous memory unchanged.
  void lay_out(std::vector<checkpoint::PieceView> pieces, bool in_place);
  /// Touches all pages of the memory with the rank's threads, so that no copy waits for page faults.
  /// Allocates nothing.
  void touch(Stream& stream);
  /// Copies the pieces given to lay_out, with the rank's threads if the memory is the host's. Allocates
  /// nothing. Throws the device's errors.
  void copy(const device::HostLink& link, Stream& stream);

  /// The copies, with the names, shapes and ranges given to lay_out.
  const std::vector<checkpoint::PieceView>& pieces() const { return copies_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes allocated so far.
  int64_t taken_bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  std::shared_ptr<device::Arena> memory_;
  std::vector<checkpoint::PieceView> copies_;
  std::vector<checkpoint::PieceView> sources_;  // the pieces given to lay_out
  int64_t bytes_ = 0;
};

}  // namespace hawser::train
