// DataFingerprint: identifies the engine's data, including the contents of its files. The files are read
// once, each rank reading a share, when a run with checkpoints begins or a checkpoint is loaded or saved. One
// mutating call at a time.
#pragma once

#include <string>

#include "engine/data/dataset.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

class DataFingerprint {
 public:
  /// `dataset` is null if batches are pushed. Both arguments must outlive this object.
  DataFingerprint(const Ranks& ranks, const data::Dataset* dataset) : ranks_(ranks), dataset_(dataset) {}

  /// The fingerprint as JSON, "{}" without data. Collective. Throws kDataInvalid if a file has become shorter
  /// since it was opened, and any error from reading it.
  const std::string& with_contents();
  /// The fingerprint to store in a checkpoint. Truncated data files must not prevent saving what was trained
  /// on them, so in that case the fingerprint leaves out their contents, now and in all later saves.
  /// Collective.
  std::string as_saved();

 private:
  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  std::string with_contents_;  // "": not computed yet
  bool cut_short_ = false;     // set by as_saved
};

}  // namespace hawser::train
