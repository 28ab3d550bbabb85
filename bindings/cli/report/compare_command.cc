#include "bindings/cli/report/compare_command.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/report/compare.h"
#include "bindings/cli/run_folder.h"

namespace hawser::cli {
namespace {

struct CompareOptions {
  std::vector<std::string> runs;
  std::string file;
};

ComparedRun read_run(const std::string& path) {
  if (!is_folder(path)) throw Failure(HWS_NOT_FOUND, "compare " + path + ": no such folder");
  if (!RunFolder::is_run(path) || !exists(path + "/resolved.json"))
    throw Failure(HWS_NOT_FOUND, "compare " + path +
                                     ": not the folder of a run (config.json, resolved.json or metrics.jsonl "
                                     "is missing); `hawser train --out` makes one");
  const RunFolder folder = RunFolder::look_into(path);
  ComparedRun run{folder_name(path), absolute_path(path), "", {}, folder.rows()};
  run.resolved = parse_json_or_discard(read_file(path + "/resolved.json"));
  if (!run.resolved.is_object())
    refuse("compare " + path + ": resolved.json is not a JSON object, so its config cannot be compared");
  if (run.rows.empty())
    refuse("compare " + path + ": metrics.jsonl has no complete row; wait for the run's first step");
  if (const auto starts = folder.starts(); !starts.empty()) run.started = date_text(starts.front().time);
  return run;
}

/// Refuses runs whose losses are not of the same kind.
void check_objectives(const std::vector<ComparedRun>& runs) {
  for (const ComparedRun& run : runs)
    if (objective_of(run) != objective_of(runs[0]))
      refuse("compare: " + runs[0].name + " has the objective \"" + objective_of(runs[0]) + "\" and " +
             run.name + " has \"" + objective_of(run) +
             "\", so their losses cannot be compared; give runs with the same " + "/objective/kind");
}

/// Reads the runs. Those with the same name are called by their paths.
std::vector<ComparedRun> read_runs(const std::vector<std::string>& paths) {
  std::vector<ComparedRun> runs;
  for (const std::string& path : paths) runs.push_back(read_run(path));
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (std::filesystem::equivalent(runs[i].folder, runs[k].folder))
        refuse("compare: " + paths[k] + " and " + paths[i] + " are the same run; give each run once");
  check_objectives(runs);
  std::vector<std::string> names;
  for (const ComparedRun& run : runs) names.push_back(run.name);
  for (size_t i = 0; i < runs.size(); ++i)
    if (std::count(names.begin(), names.end(), names[i]) > 1) runs[i].name = paths[i];
  return runs;
}

int run_compare(const CompareOptions& options) {
  if (options.runs.size() < 2)
    refuse("compare needs two or more runs; the report of one run is in its folder: " +
           (std::filesystem::path(options.runs[0]) / "report.html").string());
  const std::vector<ComparedRun> runs = read_runs(options.runs);
  if (exists(options.file))
    throw Failure(HWS_ALREADY_EXISTS, options.file + " already exists; choose another name or remove it");
  replace_file(options.file, compare_html(runs));
  output().print("wrote %s\n", options.file.c_str());
  return kExitOk;
}

}  // namespace

void add_compare_command(CLI::App* app, std::function<int()>* action) {
  auto o = std::make_shared<CompareOptions>();
  CLI::App* sub =
      app->add_subcommand("compare", "Write a page with the losses and config differences of several runs");
  sub->add_option("runs", o->runs, "Run folders")->required()->type_name("RUN");
  sub->add_option("-o,--output", o->file, "New HTML file to write")->required()->type_name("FILE");
  sub->callback([=] { *action = [o] { return run_compare(*o); }; });
}

}  // namespace hawser::cli
