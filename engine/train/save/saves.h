// Saves: writes the state of all ranks to a checkpoint, at once, or beside training from a copy of it. Owns
// that copy and the thread that writes it.
//
// Threading: one mutating call at a time; saver() says beside it how the last save goes. The saver's thread
// reads nothing but the copy and what never changes of the ranks, which outlive this.
// Errors: either the whole checkpoint is there afterwards, or what kept it from that is thrown on all ranks
// and nothing is left. Of a save beside training the operation tells.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/data_fingerprint.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"
#include "engine/train/save/background_saver.h"
#include "engine/train/save/staging.h"

namespace hawser::train {

class Saves {
 public:
  Saves(const Ranks& ranks, const Progress& progress, DataFingerprint* fingerprint);

  /// Waits for a running asynchronous save, or throws kBusy, as the config says; so does save_async.
  void save(const std::string& path);
  /// Copies the state into memory of its own (kept; throws kOutOfMemory) and writes it on another thread,
  /// beside whatever is called next. The same files, byte for byte, as save. Of ranks in several processes
  /// all fail where one does; throws kUnimplemented where their transport has no lanes. Loads, exports and the
  /// destructor wait for it.
  std::shared_ptr<SaveOperation> save_async(const std::string& path);

  // These throw on all processes if one has reason to.

  /// Before another save: waits for a running one, or throws kBusy, as the config says; then raise_unheard.
  void make_way();
  /// Under on_error stop: throws what the last save failed with, unless somebody has heard of it.
  void raise_unheard();

  /// For a run that will save beside training: its first save is to wait no longer than the others.
  void take_staging();
  /// The rank with number 0 opens the folder and finishes; all write at the same time. Whoever fails says so
  /// before anything else is done, so that all fail and nothing is left.
  void write_now(const std::string& path);
  using Write = std::function<void(const std::string& path)>;
  using OnFirst = std::function<bool(const std::function<bool()>&)>;
  /// Writes with the first, tells the second at which of the operation's checkpoints it is, and does with the
  /// third what must be done once for all ranks.
  using Job = std::function<void(const Write& write, const std::function<void(size_t)>& begin,
                                 const OnFirst& on_first)>;
  /// Copies the state, and has `job` write it to all of `paths` on the saver's thread.
  std::shared_ptr<SaveOperation> write_beside(std::vector<std::string> paths, Job job);

  BackgroundSaver& saver() { return saver_; }
  const BackgroundSaver& saver() const { return saver_; }
  /// Memory of the host that the first rank here has taken for its copy.
  int64_t staging_taken_bytes() const { return staging_.empty() ? 0 : staging_.front().taken_bytes(); }

 private:
  checkpoint::Description description();
  void lay_out_staging();
  void agree_on(const std::function<void()>& attempt) const;
  void start(const std::shared_ptr<SaveOperation>& operation, std::function<void()> write);
  void write_staged(const std::string& path, const checkpoint::Description& d,
                    checkpoint::SaveProgress* progress) const;
  void require_lane(const char* what) const;

  const Ranks& ranks_;
  const Progress& progress_;
  DataFingerprint& fingerprint_;
  std::vector<Staging> staging_;  // by rank of this process; empty before it is needed
  BackgroundSaver saver_;         // last: while it is destroyed, its thread still reads the rest
};

}  // namespace hawser::train
