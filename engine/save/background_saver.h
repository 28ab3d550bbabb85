// BackgroundSaver: the thread on which an engine writes one checkpoint at a time while training continues.
// Also counts checkpoints that could not be written.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/config/resolved_config.h"
#include "engine/save/save_operation.h"

namespace hawser::train {

/// start, await_or_refuse and rethrow_unreported_error belong to the engine's one mutating call. Any thread
/// may call the others.
class BackgroundSaver {
 public:
  explicit BackgroundSaver(const config::CheckpointConfig& config) : config_(config) {}
  /// Waits for a save in progress.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  /// Call before another save. Waits for a save in progress or throws kBusy, as /checkpoint/when_busy sets.
  void await_or_refuse();
  /// Waits for the save in progress, if any.
  void wait() const;
  /// The most recently started save; null if there was none.
  const std::shared_ptr<SaveOperation>& last() const { return last_; }
  bool running() const { return running_.load(); }
  /// Runs `write` on a new thread that exists only for this save and has all signals blocked. An exception
  /// ends the operation and counts as a failure. No other save may be in progress. Throws kUnavailable if the
  /// thread cannot be created.
  void start(std::shared_ptr<SaveOperation> operation, std::function<void()> write);
  /// Under on_error stop: throws the last save's error unless a wait has already thrown it.
  void rethrow_unreported_error();

  /// Counts a checkpoint that could not be written although the run continues.
  void count_failure(const std::string& path, const Error& error);
  struct Failures {
    int64_t count = 0;
    std::string last;  ///< path and error of the last failure; "" if there was none
  };
  Failures failures() const;

 private:
  void write_and_end(const std::shared_ptr<SaveOperation>& operation,
                     const std::function<void()>& write) noexcept;
  void count(std::shared_ptr<const std::string> path, const Error& error) noexcept;

  const config::CheckpointConfig& config_;
  std::shared_ptr<SaveOperation> last_;
  std::thread thread_;
  std::atomic<bool> running_{false};
  mutable std::mutex mutex_;  // guards the failures
  int64_t failures_ = 0;
  std::shared_ptr<const std::string> failed_path_;  // path of the last failure
  std::optional<Error> failed_with_;
};

}  // namespace hawser::train
