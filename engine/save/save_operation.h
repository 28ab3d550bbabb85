// SaveOperation: the handle of an asynchronous save: progress, result and cancellation. It may outlive the
// engine. Any thread may call any member.
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
  /// `paths` are the checkpoints that it writes, in order (at least one); used in messages. `total_bytes`
  /// counts the tensor data.
  SaveOperation(std::vector<std::string> paths, int64_t total_bytes)
      : paths_(std::move(paths)), total_bytes_(total_bytes) {}
  SaveOperation(const SaveOperation&) = delete;
  SaveOperation& operator=(const SaveOperation&) = delete;

  /// Path of the checkpoint being written.
  const std::string& path() const { return paths_[at_.load()]; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t bytes_written() const { return progress_.bytes_written(); }
  bool ended() const;
  /// Waits at most `seconds` (negative: without limit). Returns false if the save is still running. Throws
  /// the save's error, or kCancelled after cancel. The engine does not throw an error again that was thrown
  /// here.
  bool wait(double seconds);
  /// Waits until the save has ended, with or without an error.
  void wait_until_ended() const;
  /// Cancels the save and removes its files. Has no effect once the checkpoint is being made durable.
  void cancel() { progress_.cancel(); }

  // Only the writer and the engine call the functions below.
  checkpoint::SaveProgress* progress() { return &progress_; }
  /// Records that the writer continues with the i-th checkpoint.
  void begin(size_t i) { at_.store(i); }
  /// Records that the save has ended, with the error if it failed.
  void end(std::optional<Error> error);
  /// The error of a save that failed.
  std::optional<Error> error() const;
  /// Returns the error once, unless a wait() has thrown it or it is kCancelled.
  std::optional<Error> take_unreported_error();

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
