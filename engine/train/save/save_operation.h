// SaveOperation: the handle of an asynchronous save: its progress, its result, and a way to cancel it. It
// may outlive the engine. Any thread may call any member.
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
  /// Waits at most `seconds` for the end (negative: without limit); false: still running. Throws the save's
  /// error, or kCancelled after cancel. The engine does not raise an error again that was thrown here.
  bool wait(double seconds);
  /// Waits for the end, however it comes.
  void wait_until_ended() const;
  /// Ends the save with kCancelled and removes its files, unless it is just becoming durable.
  void cancel() { progress_.cancel(); }

  // The writer's side.
  checkpoint::SaveProgress* progress() { return &progress_; }
  /// It goes on with the i-th checkpoint.
  void begin(size_t i) { at_.store(i); }
  /// Ends it: well, or with an error.
  void end(std::optional<Error> error);
  /// What it failed with, if it has ended so.
  std::optional<Error> error() const;
  /// The same, but only once, only if no wait() has thrown it, and never kCancelled.
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
