// RunSaves: the checkpoints that a run keeps by itself below /checkpoint/path: when they are due, and when it
// ends. Owns the open folder. Used by the train loop; one mutating call at a time, collective.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/checkpoint/file_io.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"
#include "engine/train/save/run_checkpoints.h"
#include "engine/train/save/saves.h"

namespace hawser::train {

class RunSaves {
 public:
  RunSaves(const Ranks& ranks, const Progress& progress, Saves* saves)
      : ranks_(ranks), progress_(progress), config_(ranks.config().checkpoint), saves_(*saves) {}

  /// The folder of a run may be moved while it runs. So it is opened when the run begins, and every save asks
  /// where it is by then: checkpoints land in the run's folder, not in a new one of its old name. What cannot
  /// be opened now, the first save will tell.
  void hold_folder();
  /// What is due of the run's own checkpoints. True: step-N is there or on its way. Under on_error go_on a
  /// failure is counted, unless ranks lost each other, which no step would survive.
  bool save(const DueCheckpoints& due);
  /// A run ends with its last step on disk, or with the error why it is not. `saved`: that was begun.
  void end(bool saved);
  /// A run that ends by an error keeps the last step that it took: steps are transactions, so what failed
  /// changed nothing. There is nothing to keep where ranks lost each other, or a step broke off in its second
  /// half.
  void end_failed(bool saved);

 private:
  std::function<std::string()> place();
  void write_last_step(bool saved);
  void write_due_now(const DueCheckpoints& due, const std::function<std::string()>& where, size_t* at);

  const Ranks& ranks_;
  const Progress& progress_;
  const config::CheckpointConfig& config_;
  Saves& saves_;
  std::shared_ptr<const checkpoint::Folder> folder_;  // where rank 0 is here and the run has begun
};

}  // namespace hawser::train
