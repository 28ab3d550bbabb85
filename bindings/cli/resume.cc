// Checking a resumed run's command line against the run.
#include "bindings/cli/resume.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/load_config.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Step count and logging; threads, on which no result depends; and how the global batch is spread over ranks
/// and micro-batches, on which only the order of sums depends.
constexpr const char* kChangeable[] = {
    "/train/steps", "/train/log_every",   "/train/sample_every",    "/cpu/threads", "/mesh", "/zero",
    "/comm",        "/batch/micro_batch", "/batch/grad_accum_steps"};

bool is_changeable(const std::string& pointer) {
  return std::any_of(std::begin(kChangeable), std::end(kChangeable),
                     [&](const std::string& p) { return pointer == p || pointer.starts_with(p + "/"); });
}

std::string changeable_names() {
  std::string names;
  for (const char* pointer : kChangeable) names += (names.empty() ? "" : ", ") + std::string(pointer);
  return names;
}

void check_sets(const std::vector<std::string>& sets) {
  std::string problems;
  for (const std::string& set : sets) {
    std::string pointer, value;
    split_set(set, &pointer, &value);
    if (!is_changeable(pointer)) {
      problems += (problems.empty() ? "" : "\n") + ("--set " + set) +
                  " would make it another run; a resumed run may change only " + changeable_names() +
                  ". For another run, start from its weights: --set /init/from=CHECKPOINT --out NEW";
    }
  }
  if (!problems.empty()) refuse(problems);
}

bool is_below(const std::string& pointer, const std::vector<std::string>& ancestors) {
  return std::any_of(ancestors.begin(), ancestors.end(), [&](const std::string& ancestor) {
    return pointer == ancestor || pointer.starts_with(ancestor + "/");
  });
}

/// A config beside the run's: takes its changeable fields over, refuses differences in any other that it sets
/// and that is not below one of `overrides`.
void compare_with_run(hws_config* run, const RunFolder& folder, const hws_config* given,
                      const std::string& name, const std::vector<std::string>& overrides) {
  const auto given_fields =
      ordered_json::parse(text_of(hws_config_serialize, given, HWS_FORMAT_JSON)).flatten();
  const auto run_set = ordered_json::parse(text_of(hws_config_serialize, run, HWS_FORMAT_JSON));
  const auto run_resolved = resolved_tree(run);
  std::string differences;
  for (const auto& [pointer, value] : given_fields.items()) {
    if (pointer.empty() || is_below(pointer, overrides)) continue;
    if (is_changeable(pointer)) {
      check(hws_config_set(run, pointer.c_str(), value.dump().c_str()));
      continue;
    }
    const ordered_json::json_pointer at(pointer);
    const ordered_json was = run_set.contains(at)        ? run_set[at]
                             : run_resolved.contains(at) ? run_resolved[at]
                                                         : ordered_json();
    if (was != value)
      differences += "\n" + pointer + ": " + value.dump() + " here, " + was.dump() + " in the run";
  }
  if (!differences.empty()) {
    refuse(name + " differs from the config of the run in " + folder.path() + differences +
           "\nLeave CONFIG out to continue the run as it is, or start another with --out");
  }
}

void check_data(const hws_config* run, const std::string& data) {
  const auto tree = ordered_json::parse(text_of(hws_config_serialize, run, HWS_FORMAT_JSON));
  const ordered_json::json_pointer at("/data/path");
  const std::string was = tree.contains(at) && tree[at].is_string() ? tree[at].get<std::string>() : "";
  const std::string path = absolute_path(data);
  if (path != was && path != was + ".bin" && path != was + ".idx") {
    refuse("--data " + data + ": the run was trained on " + (was.empty() ? "other sources" : was) +
           "; leave --data out to continue it, or start another with --out");
  }
}

int64_t integer_at(const ordered_json& tree, const char* pointer) {
  const ordered_json::json_pointer at(pointer);
  return tree.contains(at) && tree[at].is_number() ? tree[at].get<int64_t>() : 1;
}

/// Whatever its ranks, a step of the run takes the same rows.
void check_global_batch(const ordered_json& before, const ordered_json& after) {
  const int64_t was = integer_at(before, "/batch/global_batch"),
                is = integer_at(after, "/batch/global_batch");
  if (was == is) return;
  const int64_t ranks = integer_at(after, "/mesh/dp_replicate") * integer_at(after, "/mesh/dp_shard");
  const int64_t unit = ranks * integer_at(after, "/batch/micro_batch");
  std::string text = "the resumed run would take " + std::to_string(is) +
                     " rows per step (micro_batch x grad_accum_steps x ranks) where it took " +
                     std::to_string(was) + ", which would make it another run; ";
  if (was % unit == 0) {
    text += "keep them with --set /batch/grad_accum_steps=" + std::to_string(was / unit);
  } else {
    text += "choose /mesh, /batch/micro_batch and /batch/grad_accum_steps whose product is " +
            std::to_string(was);
  }
  refuse(text);
}

}  // namespace

Config resume_config(const RunFolder& folder, const ConfigOptions& options) {
  check_sets(options.sets);
  Config run = load_config(folder.config_path());
  const ordered_json before = resolved_tree(run.get());
  if (!options.config.empty()) {  // what the run's own command line had set over it counts more
    const Config given = load_config(options.config);
    make_paths_absolute(given.get());
    compare_with_run(run.get(), folder, given.get(), options.config, folder.overrides());
  }
  if (!options.data.empty()) check_data(run.get(), options.data);
  apply_sets(run.get(), options.sets);
  if (options.threads > 0) {
    check(hws_config_set(run.get(), "/cpu/threads", std::to_string(options.threads).c_str()));
  }
  check_global_batch(before, resolved_tree(run.get()));
  return run;
}

Config same_run_config(const RunFolder& folder, const ConfigOptions& options) {
  if (options.config.empty()) return resume_config(folder, options);
  Config run = load_config(folder.config_path());
  const ordered_json before = resolved_tree(run.get());
  const Config given = load_config(options);
  make_paths_absolute(given.get());
  compare_with_run(run.get(), folder, given.get(), "the command line's config", {});
  check_global_batch(before, resolved_tree(run.get()));
  return run;
}

}  // namespace hawser::cli
