// RunSaves: writes the checkpoints of a run to /checkpoint/path: those that are due, and the last step at the
// end. Owns the open folder. The train loop uses it; one mutating call at a time, collective.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/checkpoint/file_io.h"
#include "engine/ranks/ranks.h"
#include "engine/save/run_checkpoints.h"
#include "engine/save/saves.h"
#include "engine/state/progress.h"
#include "engine/state/references.h"
#include "engine/state/teacher_pass.h"

namespace hawser::train {

class RunSaves {
 public:
  RunSaves(const Ranks& ranks, const Progress& progress, Saves* saves)
      : ranks_(ranks), progress_(progress), config_(ranks.config().checkpoint), saves_(*saves) {}

  /// Opens the folder when the run begins. A run's folder may be moved while it runs: every save looks up its
  /// current path, so checkpoints follow it instead of recreating the old path. If opening fails, the first
  /// save reports it.
  void hold_folder();
  /// Writes the references of the run's data and the pairs of its teacher, if there are any, so that a
  /// resumed run finds them.
  void keep(const References& references, const TeacherOutput& teacher, const data::Dataset* dataset);
  /// Saves the checkpoints that are due. Returns true if step-N exists or is being written. Under on_error
  /// go_on a failure is only counted, unless the ranks can no longer agree, since no step is possible then.
  bool save(const DueCheckpoints& due);
  /// Ends a run. Throws the reason if its last step cannot be saved. `saved` is true if the save of the last
  /// step has already begun.
  void end(bool saved);
  /// Ends a run after an error. Steps are transactions, so the last completed step is intact and is saved.
  /// Nothing is saved if the ranks can no longer agree or a step failed in its update phase.
  void end_failed(bool saved);

 private:
  std::function<std::string()> place();
  void write_last_step(bool saved);
  void write_due_now(const DueCheckpoints& due, const std::function<std::string()>& where, size_t* at);

  const Ranks& ranks_;
  const Progress& progress_;
  const config::CheckpointConfig& config_;
  Saves& saves_;
  std::shared_ptr<const checkpoint::Folder> folder_;  // set in rank 0's process while a run is active
};

}  // namespace hawser::train
