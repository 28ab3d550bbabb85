// TrainLoop: runs steps, validation and checkpoints when they are due, and calls the host program after each
// step. It also ends a run so that no completed step is lost.
//
// Threading: one call at a time; the host program's callback runs on the calling thread. Collective.
// Errors: an error of a step, a validation or a save ends the run, with its last completed step on disk.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>

#include "engine/run/cancel.h"
#include "engine/save/run_saves.h"
#include "engine/state/progress.h"

namespace hawser::train {

class Trainer;

struct TrainRecord {
  StepResult result;
  double validation_loss = 0;  ///< NaN if there was none
  double tokens_per_second = 0;
  int64_t total_steps = 0;
  bool saved = false, best = false;
  int64_t communication_bytes = 0;  ///< bytes sent in this step by the first local rank
  int64_t save_failures = 0;        ///< checkpoints that could not be written before this step
};

class TrainLoop {
 public:
  TrainLoop(Trainer* trainer, Progress* progress, Cancel* cancel);

  /// Runs until `until_step` (0: train.steps of the config). fn returns false to stop. Throws kCancelled.
  void run(int64_t until_step, const std::function<bool(const TrainRecord&)>& fn);

 private:
  struct Wishes {
    bool end = false, save = false;
  };
  const config::ResolvedConfig& config() const { return ranks_.config(); }
  bool take_steps(int64_t total, const std::function<bool(const TrainRecord&)>& fn, int64_t* kept);
  DueCheckpoints due_after_step(const TrainRecord& record, bool by_time) const;
  bool keep(const DueCheckpoints& due);
  std::exception_ptr step_and_validate(TrainRecord* record);
  void validate_if_due(bool last, TrainRecord* record);
  bool out_of_patience() const;
  std::optional<double> validation_loss();
  Wishes agree(Wishes here) const;

  Trainer& trainer_;
  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  Progress& progress_;
  Cancel& cancel_;
  RunSaves run_saves_;
};

}  // namespace hawser::train
