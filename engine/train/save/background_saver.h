// BackgroundSaver: the thread on which an engine writes one checkpoint at a time beside training, and the
// account of checkpoints that could not be written.
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
#include "engine/train/save/save_operation.h"

namespace hawser::train {

/// Start, make_way and raise_unheard are for the engine's one mutating call; the others for any thread beside
/// them.
class BackgroundSaver {
 public:
  explicit BackgroundSaver(const config::CheckpointConfig& config) : config_(config) {}
  /// Waits for a running save.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  /// Before another save: waits for a running one, or throws kBusy, as the config says.
  void make_way();
  /// Waits for a running save, if there is one.
  void wait() const;
  /// The save that was started last; null: none was.
  const std::shared_ptr<SaveOperation>& last() const { return last_; }
  bool running() const { return running_.load(); }
  /// Runs `write` on a thread of its own, which exists for this save alone and takes none of the host's
  /// signals; what it throws ends the operation and is counted. No other save may be running. Throws
  /// kUnavailable if there can be no thread.
  void start(std::shared_ptr<SaveOperation> operation, std::function<void()> write);
  /// Under on_error stop: throws the last save's error, unless a wait has thrown it already.
  void raise_unheard();

  /// A checkpoint that could not be written while the run goes on.
  void count_failure(const std::string& path, const Error& error);
  struct Failures {
    int64_t count = 0;
    std::string last;  ///< path and error of the last one; "" while there is none
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
  std::shared_ptr<const std::string> failed_path_;  // of the last one
  std::optional<Error> failed_with_;
};

}  // namespace hawser::train
