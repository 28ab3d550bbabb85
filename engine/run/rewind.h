// Rewind: what happens after an outlier under /guard/outlier rewind. The engine loads the newest checkpoint
// of the run and goes on with the rows after the outlier's, as Chowdhery et al. did by hand (PaLM, arXiv
// 2204.02311, section 5.1). Except for the data cursor, the engine has the checkpoint's state. Checkpoints do
// not record rewinds: a run that is resumed from the same checkpoint computes the same outlier and goes back
// again.
//
// Collective. One mutating call at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/checkpoint/reader.h"
#include "engine/config/resolved_config.h"
#include "engine/save/loads.h"
#include "engine/state/progress.h"

namespace hawser::train {

class Rewind {
 public:
  Rewind(const config::ResolvedConfig& config, Progress* progress, Loads* loads)
      : config_(config), progress_(*progress), loads_(*loads) {}

  /// Returns the checkpoint to go back to after an outlier; null if the config does not ask for it, or if the
  /// run has no valid checkpoint yet. Throws read errors.
  std::shared_ptr<const checkpoint::Reader> target() const;
  /// Goes back. Throws kNumeric, with the checkpoint loaded, if this was more often than the config allows.
  void go_to(const checkpoint::Reader& target);

 private:
  const config::ResolvedConfig& config_;
  Progress& progress_;
  Loads& loads_;
  int64_t step_ = -1;  ///< of the last checkpoint that the run went back to
  int64_t times_ = 0;  ///< how often in a row
};

}  // namespace hawser::train
