#include "engine/train/run_checkpoints.h"

#include <fmt/format.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"

namespace hawser::train {

std::string step_path(const config::CheckpointConfig& config, int64_t step) {
  return fmt::format("{}/step-{}", config.path, step);
}

void write_due(const config::CheckpointConfig& config, const DueCheckpoints& due,
               const std::function<void(const std::string&)>& save,
               const std::function<bool(const std::function<bool()>&)>& on_first) {
  const std::string step = step_path(config, due.step);
  const std::string best = config.path + "/best", next = config.path + "/best.next";
  const bool there = on_first([&] {
    checkpoint::sweep(config.path);
    checkpoint::remove_tree(next);
    return checkpoint::path_exists(step);
  });
  if (due.step_checkpoint) {
    if (!there) save(step);
    on_first([&] { return checkpoint::retain(config.path, config.keep_last), true; });
  }
  if (due.best) {
    save(next);
    on_first([&] { return checkpoint::put_in_place(next, best), true; });
  }
}

}  // namespace hawser::train
