// Saves: writes the state of all ranks to a checkpoint, either at once or from a copy while training
// continues. Owns the copy and the thread that writes it.
//
// Threading: one mutating call at a time; saver() may be used at any time. The saver's thread reads only the
// copy and the immutable part of the ranks, which outlive this object. Errors: either the complete checkpoint
// exists afterwards, or the error is thrown on all ranks and nothing is left behind. Errors of an
// asynchronous save are reported by its SaveOperation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/ranks/ranks.h"
#include "engine/save/background_saver.h"
#include "engine/save/save_copy.h"
#include "engine/state/data_fingerprint.h"
#include "engine/state/progress.h"

namespace hawser::train {

class Saves {
 public:
  Saves(const Ranks& ranks, const Progress& progress, DataFingerprint* fingerprint);

  /// Like save_async, waits for an asynchronous save in progress or throws kBusy, as /checkpoint/when_busy
  /// sets.
  void save(const std::string& path);
  /// Copies the state into its own memory (kept for later saves; throws kOutOfMemory) and writes it on
  /// another thread. The files are identical to those of save, byte for byte. With ranks in several
  /// processes, a failure on one fails all; throws kUnimplemented if their transport has no lanes. Loads,
  /// exports and the destructor wait for it.
  std::shared_ptr<SaveOperation> save_async(const std::string& path);

  // If one of the functions below throws on one process, it throws on all.

  /// Call before another save. Waits for a save in progress or throws kBusy, as /checkpoint/when_busy sets,
  /// then calls rethrow_unreported_error.
  void await_or_refuse();
  /// Under on_error stop: throws the last save's error unless it has already been reported.
  void rethrow_unreported_error();

  /// Allocates the copy for a run that saves asynchronously, so that its first save is as fast as the others.
  void take_copies();
  /// Rank 0 creates and publishes the checkpoint; all ranks write in parallel. After each phase any failure
  /// is reported to all ranks, so all fail together and nothing is left behind.
  void write_now(const std::string& path);
  using Write = std::function<void(const std::string& path)>;
  using OnFirst = std::function<bool(const std::function<bool()>&)>;
  /// A function that the saver's thread runs. `write` writes a checkpoint, `begin` reports which one is next,
  /// and `on_first` runs a function once for all ranks.
  using Job = std::function<void(const Write& write, const std::function<void(size_t)>& begin,
                                 const OnFirst& on_first)>;
  /// Copies the state and lets `job` write it to `paths` on the saver's thread.
  std::shared_ptr<SaveOperation> write_async(std::vector<std::string> paths, Job job);

  BackgroundSaver& saver() { return saver_; }
  const BackgroundSaver& saver() const { return saver_; }
  /// Host memory taken by the first local rank for its copy.
  int64_t copies_taken_bytes() const { return copies_.empty() ? 0 : copies_.front().taken_bytes(); }

 private:
  checkpoint::Description description();
  void lay_out_copies();
  void agree_on(const std::function<void()>& attempt) const;
  void start(const std::shared_ptr<SaveOperation>& operation, std::function<void()> write);
  void write_staged(const std::string& path, const checkpoint::Description& d,
                    checkpoint::SaveProgress* progress) const;
  void require_lane(const char* what) const;

  const Ranks& ranks_;
  const Progress& progress_;
  DataFingerprint& fingerprint_;
  std::vector<SaveCopy> copies_;  // indexed by rank of this process; empty until needed
  // declared last: its destructor waits for a thread that reads the members above
  BackgroundSaver saver_;
};

}  // namespace hawser::train
