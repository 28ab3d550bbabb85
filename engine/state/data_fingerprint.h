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

  /// Returns the fingerprint as JSON, "{}" without data. Collective. Throws kDataInvalid if a file has
  /// become shorter since it was opened, and any error from reading it.
  const std::string& with_contents();
  /// Returns the fingerprint to store in a checkpoint. If the contents of data files cannot be read, it
  /// leaves them out, so that the run can still be saved; after a truncation, later saves leave them out
  /// as well. Collective.
  std::string as_saved();

 private:
  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  std::string with_contents_;  // "": not computed yet
  bool cut_short_ = false;     // set by as_saved
};

}  // namespace hawser::train
