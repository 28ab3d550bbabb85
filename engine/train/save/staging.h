// Staging: a rank's copy of what it writes to a checkpoint, so that training may go on while the copy is
// written. It lies outside the arena, is taken when the engine is made for a run that saves so, else with the
// first asynchronous save, and kept.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/stream.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/device/arena.h"
#include "engine/device/host_link.h"
#include "engine/nn/parameter.h"
#include "engine/parallel/shard_layout.h"

namespace hawser::train {

class Staging {
 public:
  /// Takes the memory for these pieces, if it is not there yet, and lays them out in it. `in_place`: they are
  /// in the host's memory, so a save could do without. Throws kOutOfMemory (needed, available, what to do),
  /// with what was there before unchanged.
  void lay_out(std::vector<checkpoint::PieceView> pieces, bool in_place);
  /// Has the system give all of the memory now, so that no copy waits for it, on the rank's threads.
  /// Allocates nothing.
  void touch(Stream& stream);
  /// Copies what lay_out was given, on the rank's threads where its memory is the host's. Allocates nothing.
  /// Throws the device's errors.
  void copy(const device::HostLink& link, Stream& stream);

  /// The copies: names, shapes and ranges as given to lay_out.
  const std::vector<checkpoint::PieceView>& pieces() const { return copies_; }
  int64_t bytes() const { return bytes_; }
  /// Memory taken so far.
  int64_t taken_bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  std::shared_ptr<device::Arena> memory_;
  std::vector<checkpoint::PieceView> copies_;
  std::vector<const void*> sources_;  // of copies_
  int64_t bytes_ = 0;
};

/// Bytes that a rank of this layout will stage, known before anything is allocated.
int64_t staging_bytes(const parallel::ShardLayout& layout, const nn::ParameterTable& table);

}  // namespace hawser::train
