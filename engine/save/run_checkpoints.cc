#include "engine/save/run_checkpoints.h"

#include <fmt/format.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file_io.h"

namespace hawser::train {
namespace {

constexpr const char* kBest = "best";

std::string step_name(int64_t step) { return fmt::format("step-{}", step); }

}  // namespace

std::string step_path(const config::CheckpointConfig& config, int64_t step) {
  return config.path + "/" + step_name(step);
}

std::vector<std::string> DueCheckpoints::paths(const config::CheckpointConfig& config) const {
  std::vector<std::string> paths;
  if (step_checkpoint) paths.push_back(step_path(config, step));
  if (best) paths.push_back(config.path + "/" + kBest);
  return paths;
}

void write_due(const config::CheckpointConfig& config, const DueCheckpoints& due,
               const std::function<std::string()>& where, const std::function<void(const std::string&)>& save,
               const std::function<bool(const std::function<bool()>&)>& on_first,
               const std::function<void(size_t)>& begin) {
  const auto step = [&] { return where() + "/" + step_name(due.step); };
  const auto best = [&] { return where() + "/" + kBest; };
  const auto next = [&] { return best() + ".next"; };
  begin(0);
  const bool there = on_first([&] {
    checkpoint::sweep(where());
    checkpoint::remove_tree(next());
    return checkpoint::path_exists(step());
  });
  if (due.step_checkpoint) {
    if (!there) save(step());
    on_first([&] { return checkpoint::retain(where(), config.keep_last), true; });
  }
  if (due.best) {
    begin(due.step_checkpoint ? 1 : 0);
    save(next());
    on_first([&] { return checkpoint::put_in_place(next(), best()), true; });
  }
}

}  // namespace hawser::train
