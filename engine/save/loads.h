// Loads: restores an engine from a given checkpoint or from the newest valid one in a folder.
//
// Collective: processes open, compare and verify together before anything changes, so all of them skip the
// same damaged checkpoints. One mutating call at a time. Errors: kCheckpointCorrupt, kCheckpointIncompatible
// and read errors leave the engine unchanged. If the disk fails later, the engine holds a mix of two
// checkpoints and accepts nothing but another load.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/ranks/ranks.h"
#include "engine/save/background_saver.h"
#include "engine/state/data_fingerprint.h"
#include "engine/state/monitor.h"
#include "engine/state/progress.h"

namespace hawser::train {

class Loads {
 public:
  Loads(const Ranks& ranks, Progress* progress, DataFingerprint* fingerprint, const BackgroundSaver& saver,
        Monitor* monitor)
      : ranks_(ranks), progress_(*progress), fingerprint_(*fingerprint), saver_(saver), monitor_(*monitor) {}

  void load(const std::string& path, bool allow_other_data);
  /// Loads the newest valid checkpoint of `folder`. Returns JSON with its name and the newer ones that are
  /// damaged. Throws kNotFound if there is none, kCheckpointCorrupt if all are damaged, and read errors.
  std::string load_latest(const std::string& folder, bool allow_other_data);
  /// Opens and verifies the newest valid checkpoint of `folder` that is not of a later step than `last_step`;
  /// null if there is none. The engine does not change, and a step may be pending.
  std::shared_ptr<const checkpoint::Reader> newest(const std::string& folder, int64_t last_step);
  /// Gives the engine the state of a checkpoint that newest returned. No step may be pending.
  void take_over(const checkpoint::Reader& reader);

 private:
  struct Newest {
    std::shared_ptr<const checkpoint::Reader> reader;  ///< null if no checkpoint is valid
    std::string name;
    std::vector<checkpoint::Damaged> damaged;  ///< newer ones
  };
  Newest open_newest(const std::string& folder, int64_t last_step, bool allow_other_data);
  std::shared_ptr<const checkpoint::Reader> open_checkpoint(const std::string& path,
                                                            const std::string& data) const;
  std::shared_ptr<const checkpoint::Reader> open_the_same(const std::string& path, bool allow_other_data);

  const Ranks& ranks_;
  Progress& progress_;
  DataFingerprint& fingerprint_;
  const BackgroundSaver& saver_;
  Monitor& monitor_;
};

}  // namespace hawser::train
