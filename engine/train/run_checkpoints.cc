#include "engine/train/run_checkpoints.h"

#include <fmt/format.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"

namespace hawser::train {
namespace {

std::string best_path(const config::CheckpointConfig& config) { return config.path + "/best"; }

}  // namespace

std::string step_path(const config::CheckpointConfig& config, int64_t step) {
  return fmt::format("{}/step-{}", config.path, step);
}

std::vector<std::string> DueCheckpoints::paths(const config::CheckpointConfig& config) const {
  std::vector<std::string> paths;
  if (step_checkpoint) paths.push_back(step_path(config, step));
  if (best) paths.push_back(best_path(config));
  return paths;
}

void write_due(const config::CheckpointConfig& config, const DueCheckpoints& due,
               const std::function<void(const std::string&)>& save,
               const std::function<bool(const std::function<bool()>&)>& on_first,
               const std::function<void(size_t)>& begin) {
  const std::string step = step_path(config, due.step);
  const std::string best = best_path(config), next = best + ".next";
  begin(0);
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
    begin(due.step_checkpoint ? 1 : 0);
    save(next);
    on_first([&] { return checkpoint::put_in_place(next, best), true; });
  }
}

}  // namespace hawser::train
