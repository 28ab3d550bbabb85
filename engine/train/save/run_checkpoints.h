// What a run keeps below checkpoint.path: step-N, of which the newest stay, and best.
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
  /// Where they will be ("path/step-7", "path/best"), in the order in which they are written.
  std::vector<std::string> paths(const config::CheckpointConfig& config) const;
};

/// "path/step-7"
std::string step_path(const config::CheckpointConfig& config, int64_t step);

/// Writes what is due into the folder that `where` names; it is asked again before each part, because the folder may be
/// moved meanwhile. What earlier saves left behind when they were killed goes first, so that it takes no
/// space from this one. A step that is there already stays; `best` is written beside the old one and put in
/// its place, so that there always is one.
///   save(path)       writes the state there
///   on_first(fn)     what must be done once for all ranks: runs fn on one, its answer or error is everyone's
///   begin(i)         hears that all that follows is for the i-th of due.paths
void write_due(const config::CheckpointConfig& config, const DueCheckpoints& due,
               const std::function<std::string()>& where,
               const std::function<void(const std::string& path)>& save,
               const std::function<bool(const std::function<bool()>&)>& on_first,
               const std::function<void(size_t)>& begin);

}  // namespace hawser::train
