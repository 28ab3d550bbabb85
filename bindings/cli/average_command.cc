#include "bindings/cli/average_command.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "bindings/cli/argument_checks.h"
#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/output.h"

namespace fs = std::filesystem;

namespace hawser::cli {
namespace {

struct AverageOptions {
  std::string run, steps, destination;
  std::vector<double> weights;
};

struct StepRange {
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();
};

bool read_step(std::string_view text, int64_t* step) { return read_number(text, step) && *step >= 0; }

StepRange read_range(const std::string& text) {
  StepRange range;
  if (text.empty()) return range;
  const size_t dots = text.find("..");
  const bool read = dots != text.npos && read_step(std::string_view(text).substr(0, dots), &range.first) &&
                    read_step(std::string_view(text).substr(dots + 2), &range.last);
  if (!read || range.first > range.last)
    refuse("--steps \"" + text + "\" is not a range of steps; write it as 800..1000");
  return range;
}

/// Returns the steps for which the folder has checkpoints, in ascending order.
std::vector<int64_t> steps_in(const std::string& folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t step = 0;
    if (name.starts_with("step-") && read_step(std::string_view(name).substr(5), &step))
      steps.push_back(step);
  }
  if (error) fail_file("cannot list " + folder, error.value());
  std::ranges::sort(steps);
  return steps;
}

std::string listed(const std::vector<int64_t>& steps) {
  std::string text;
  for (const int64_t step : steps) text += (text.empty() ? "" : ", ") + std::to_string(step);
  return text.empty() ? "none" : text;
}

int run_average(const AverageOptions& options) {
  const StepRange range = read_range(options.steps);
  const std::string of_run = options.run + "/checkpoints";
  if (!is_folder(options.run))
    throw Failure(HWS_NOT_FOUND,
                  options.run + " is not a folder; give the folder of a run (hawser train --out)");
  const std::string folder = is_folder(of_run) ? of_run : options.run;
  const std::vector<int64_t> all = steps_in(folder);
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  std::vector<int64_t> steps;
  for (const int64_t step : all)
    if (step >= range.first && step <= range.last)
      steps.push_back(step), paths.push_back(folder + "/step-" + std::to_string(step));
  if (steps.size() < 2)
    refuse("a mean needs at least two checkpoints; in " + folder + ", the range contains steps " +
           listed(steps) + " (all steps: " + listed(all) +
           "). /checkpoint/keep_last sets how many a run keeps");
  if (!options.weights.empty() && options.weights.size() != steps.size())
    refuse("--weights has " + std::to_string(options.weights.size()) + " numbers for " +
           std::to_string(steps.size()) + " checkpoints (steps " + listed(steps) + ")");
  const std::string weights = nlohmann::json(options.weights).dump();
  check(hws_checkpoint_average(paths.dump().c_str(), options.weights.empty() ? nullptr : weights.c_str(),
                               options.destination.c_str()));
  output().print(
      "mean of steps %s -> checkpoint %s\nhawser convert %s FOLDER makes a Hugging Face folder of it\n",
      listed(steps).c_str(), options.destination.c_str(), options.destination.c_str());
  return kExitOk;
}

}  // namespace

void add_average_command(CLI::App* app, std::function<int()>* action) {
  auto o = std::make_shared<AverageOptions>();
  CLI::App* average =
      app->add_subcommand("average", "Write the mean of several checkpoints of a run as one checkpoint");
  average->add_option("run", o->run, "Run folder, or a folder of checkpoints")->type_name("RUN")->required();
  average->add_option("destination", o->destination, "New checkpoint to write")->type_name("DIR")->required();
  average->add_option("--steps", o->steps, "First and last step of the checkpoints (default: all)")
      ->type_name("A..B");
  average
      ->add_option("--weights", o->weights,
                   "Share of each checkpoint, in the order of their steps (default: equal shares)")
      ->delimiter(',')
      ->type_name("W,W,...");
  average->callback([=] { *action = [o] { return run_average(*o); }; });
}

}  // namespace hawser::cli
