// write_due: a function that writes the checkpoints of a run into checkpoint.path: step-N and best. It
// removes old ones: the newest keep_last step-N and one best remain.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/config/resolved_config.h"

namespace hawser::train {

struct DueCheckpoints {
  int64_t step = 0;
  bool step_checkpoint = false, best = false;
  bool any() const { return step_checkpoint || best; }
  /// Paths in the order of writing, such as "path/step-7", "path/best".
  std::vector<std::string> paths(const config::CheckpointConfig& config) const;
};

/// "path/step-7"
std::string step_path(const config::CheckpointConfig& config, int64_t step);

/// Writes the checkpoints that are due into the folder that `where` returns. `where` is called before each
/// part, because the folder may be moved meanwhile. First removes the remains of saves that were killed, to
/// free their space. A step-N that exists is left alone. A new `best` is written next to the old one and then
/// replaces it, so one always exists.
///   save(path)     writes the state to path
///   on_first(fn)   runs fn on one rank for all; every rank returns its result or throws its error
///   begin(i)       reports that the next writes belong to the i-th of due.paths
void write_due(const config::CheckpointConfig& config, const DueCheckpoints& due,
               const std::function<std::string()>& where,
               const std::function<void(const std::string& path)>& save,
               const std::function<bool(const std::function<bool()>&)>& on_first,
               const std::function<void(size_t)>& begin);

}  // namespace hawser::train
