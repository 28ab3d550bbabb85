// DataFingerprint: what an engine's data are, with what their files hold: read once, a share by each rank,
// when a run with checkpoints begins or a checkpoint is loaded or saved. One mutating call at a time.
#pragma once

#include <string>

#include "engine/data/dataset.h"
#include "engine/train/ranks/ranks.h"

namespace hawser::train {

class DataFingerprint {
 public:
  /// `dataset`: null where batches are pushed. Both outlive it.
  DataFingerprint(const Ranks& ranks, const data::Dataset* dataset) : ranks_(ranks), dataset_(dataset) {}

  /// "{}" without data. Collective. Throws kDataInvalid where files were cut short, and what keeps them from
  /// being read.
  const std::string& with_contents();
  /// For a checkpoint: data that were cut short are no reason not to save what was trained on them, so then
  /// without their contents, now and in all later saves. Collective.
  std::string as_saved();

 private:
  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  std::string with_contents_;  // "": not known
  bool cut_short_ = false;     // found so by as_saved
};

}  // namespace hawser::train
