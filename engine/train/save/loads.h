// Loads: an engine goes on from a checkpoint, this one or the newest of a folder that is whole.
//
// Collective: processes open, compare and verify together before anything changes, so that what is passed over
// is passed over by all. One mutating call at a time.
// Errors: kCheckpointCorrupt, kCheckpointIncompatible, and what keeps a file from being read, with the engine
// as it was. Should the disk fail after that, weights of two checkpoints are left, and nothing but another
// load is possible.
#pragma once

#include <memory>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/train/data_fingerprint.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"
#include "engine/train/save/background_saver.h"

namespace hawser::train {

class Loads {
 public:
  Loads(const Ranks& ranks, Progress* progress, DataFingerprint* fingerprint, const BackgroundSaver& saver)
      : ranks_(ranks), progress_(*progress), fingerprint_(*fingerprint), saver_(saver) {}

  void load(const std::string& path, bool allow_other_data);
  /// Loads the newest checkpoint of `folder` that is whole; JSON of which it was, and of newer ones that are
  /// damaged. Throws kNotFound where there is none, kCheckpointCorrupt where all are damaged, and what keeps
  /// one from being read.
  std::string load_latest(const std::string& folder, bool allow_other_data);

 private:
  std::shared_ptr<const checkpoint::Reader> open_checkpoint(const std::string& path,
                                                            const std::string& data) const;
  std::shared_ptr<const checkpoint::Reader> open_the_same(const std::string& path, bool allow_other_data);
  void take_over(const checkpoint::Reader& reader);

  const Ranks& ranks_;
  Progress& progress_;
  DataFingerprint& fingerprint_;
  const BackgroundSaver& saver_;
};

}  // namespace hawser::train
