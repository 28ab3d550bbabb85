// SaveOperation: an asynchronous save as others see it: how far it is, how it ended, and their wish that it
// end. It outlives the engine for whoever holds it. Every member may be called on any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/checkpoint/sharded_save.h"

namespace hawser::train {

class SaveOperation {
 public:
  /// `paths`: of the checkpoints that it writes, one after the other (at least one), for messages.
  /// `total_bytes`: of tensors, that will be written.
  SaveOperation(std::vector<std::string> paths, int64_t total_bytes)
      : paths_(std::move(paths)), total_bytes_(total_bytes) {}
  SaveOperation(const SaveOperation&) = delete;
  SaveOperation& operator=(const SaveOperation&) = delete;

  /// Of the checkpoint that it is at.
  const std::string& path() const { return paths_[at_.load()]; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t bytes_written() const { return progress_.bytes_written(); }
  bool ended() const;
  /// Waits at most `seconds` for the end (negative: as long as it takes); false: not yet. Throws what the
  /// save failed with, kCancelled after cancel. What was thrown once is not raised by the engine again.
  bool wait(double seconds);
  /// Waits for the end, however it comes.
  void wait_until_ended() const;
  /// Ends the save with kCancelled, with nothing left of it, unless it is just becoming durable.
  void cancel() { progress_.cancel(); }

  // The writer's side.
  checkpoint::SaveProgress* progress() { return &progress_; }
  /// It goes on with the i-th checkpoint.
  void begin(size_t i) { at_.store(i); }
  /// Ends it: well, or with an error.
  void end(std::optional<Error> error);
  /// What it failed with, if it has ended so.
  std::optional<Error> error() const;
  /// The same once, and only if nobody has heard of it; kCancelled never.
  std::optional<Error> take_unheard();

 private:
  const std::vector<std::string> paths_;
  std::atomic<size_t> at_{0};
  const int64_t total_bytes_;
  checkpoint::SaveProgress progress_;
  mutable std::mutex mutex_;
  mutable std::condition_variable change_;
  bool ended_ = false, heard_ = false;
  std::optional<Error> error_;
};

}  // namespace hawser::train
