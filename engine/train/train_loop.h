// TrainLoop: steps, validation when it is due, checkpoints when they are due, a record for the host after each
// step; and how a run ends, so that nothing of it is lost.
//
// Threading: one call at a time; the host's callback runs on its thread. Collective.
// Errors: what a step, a validation or a save throws ends the run, with the last step that it took on disk.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

#include "engine/train/cancel.h"
#include "engine/train/progress.h"
#include "engine/train/save/run_saves.h"

namespace hawser::train {

class Trainer;

struct TrainRecord {
  StepResult result;
  double validation_loss = 0;  ///< NaN: none
  double tokens_per_second = 0;
  int64_t total_steps = 0;
  bool saved = false, best = false;
  int64_t communication_bytes = 0;  ///< sent in this step by the first rank here
  int64_t save_failures = 0;        ///< checkpoints that this engine could not write, before this step's
};

class TrainLoop {
 public:
  TrainLoop(Trainer* trainer, Progress* progress, Cancel* cancel);

  /// Until `until_step`; 0: as many as the config says. fn returns false to end. Throws kCancelled.
  void run(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn);

 private:
  struct Wishes {
    bool end = false, save = false;
  };
  const config::ResolvedConfig& config() const { return ranks_.config(); }
  bool take_steps(int64_t total, const std::function<bool(const TrainRecord&)>& fn, int64_t* kept);
  std::exception_ptr step_and_validate(TrainRecord* record);
  void validate_if_due(bool last, TrainRecord* record);
  double validation_loss();
  Wishes agree(Wishes here) const;

  Trainer& trainer_;
  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  Progress& progress_;
  Cancel& cancel_;
  RunSaves run_saves_;
};

}  // namespace hawser::train
