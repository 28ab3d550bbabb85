// Checks a resumed run's command line against the run.
#include "bindings/cli/train/resume.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/text/prepare.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// The fields that may change: step count and logging; threads, which affect no result; the division of the
/// global batch over ranks and micro-batches, which affects only the order of sums.
constexpr const char* kChangeable[] = {"/train/steps",
                                       "/train/epochs",
                                       "/train/epoch_samples",
                                       "/train/patience",
                                       "/train/log_every",
                                       "/train/sample_every",
                                       "/schedule/decay_steps",
                                       "/cpu/threads",
                                       "/mesh",
                                       "/zero",
                                       "/comm",
                                       "/batch/micro_batch",
                                       "/batch/grad_accum_steps",
                                       "/checkpoint/every",
                                       "/checkpoint/every_seconds",
                                       "/checkpoint/keep_last",
                                       "/telemetry",
                                       "/data/path",
                                       "/data/sources",
                                       "/data/validation_sources"};

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
                  " cannot change in a resumed run; only these can: " + changeable_names() +
                  ". To start a new run from its weights: --set /init/from=CHECKPOINT --out NEW";
    }
  }
  if (!problems.empty()) refuse(problems);
}

bool is_below(const std::string& pointer, const std::vector<std::string>& ancestors) {
  return std::any_of(ancestors.begin(), ancestors.end(), [&](const std::string& ancestor) {
    return pointer == ancestor || pointer.starts_with(ancestor + "/");
  });
}

/// Compares a given config with the run's. Takes over its changeable fields, and refuses a difference in any
/// other field it sets that is not below one of `overrides`.
void compare_with_run(hws_config* run, const RunFolder& folder, const hws_config* given,
                      const std::string& name, const std::vector<std::string>& overrides) {
  const auto given_fields = parse_json(text_of(hws_config_serialize, given, HWS_FORMAT_JSON)).flatten();
  const auto run_set = parse_json(text_of(hws_config_serialize, run, HWS_FORMAT_JSON));
  const auto run_resolved = resolved_tree(run);
  std::string differences;
  for (const auto& [pointer, value] : given_fields.items()) {
    if (pointer.empty() || is_below(pointer, overrides)) continue;
    const ordered_json::json_pointer at(pointer);
    const ordered_json was = run_set.contains(at)        ? run_set[at]
                             : run_resolved.contains(at) ? run_resolved[at]
                                                         : ordered_json();
    if (is_changeable(pointer)) {
      if (was != value) check(hws_config_set(run, pointer.c_str(), value.dump().c_str()));
    } else if (was != value)
      differences += "\n" + pointer + ": " + value.dump() + " here, " + was.dump() + " in the run";
  }
  if (!differences.empty()) {
    refuse(name + " differs from the config of the run in " + folder.path() + differences +
           "\nLeave CONFIG out to continue the run as it is, or start a new one with --out");
  }
}

/// Reports missing data with advice, before opening a file would fail.
void check_data_is_there(const hws_config* run) {
  const auto tree = parse_json(text_of(hws_config_serialize, run, HWS_FORMAT_JSON));
  const ordered_json::json_pointer at("/data/path");
  if (!tree.contains(at) || !tree[at].is_string()) return;
  const std::string path = tree[at].get<std::string>();
  std::error_code error;
  for (const char* ending : {"", ".bin", ".idx"})
    if (std::filesystem::exists(path + ending, error)) return;
  throw Failure(
      HWS_NOT_FOUND,
      path +
          ": the run's data are no longer there; if they were moved, give their new path with --data FILE "
          "(their contents must be the same)");
}

/// Corrects the path of rows that were prepared into the run's folder, because they move with it.
void find_own_rows(hws_config* run, const RunFolder& folder) {
  const std::string own = absolute_path(prepared_folder_of(folder.path()));
  const ordered_json::json_pointer path("/data/path"), format("/data/format");
  const auto tree = parse_json(text_of(hws_config_serialize, run, HWS_FORMAT_JSON));
  if (!is_prepared(own) || !tree.contains(path) || tree.value(format, "") != "prepared") return;
  const auto was = std::filesystem::path(tree.at(path).get<std::string>());
  if (was.filename() == std::filesystem::path(own).filename())
    check(hws_config_set(run, "/data/path", ordered_json(own).dump().c_str()));
}

int64_t integer_at(const ordered_json& tree, const char* pointer) {
  const ordered_json::json_pointer at(pointer);
  return tree.contains(at) && tree[at].is_number() ? tree[at].get<int64_t>() : 1;
}

/// Returns the config's preset as JSON; an empty object if the config names no preset.
ordered_json preset_of(const ordered_json& config) {
  if (!config.contains("preset")) return ordered_json::object();
  const Config preset = make<Config>(hws_config_preset, config["preset"].get<std::string>().c_str());
  return parse_json(text_of(hws_config_serialize, preset.get(), HWS_FORMAT_JSON));
}

/// Returns the rows per step of a config. Opens none of the files that the config names. Leaves out the
/// preset's other sections, because its data section cannot be resolved without a path.
int64_t global_batch_of(const ordered_json& config, const ordered_json& model) {
  ordered_json small = {{"model", model}};
  small["model"].erase("adapter");
  const ordered_json preset = preset_of(config);
  for (const char* key : {"batch", "mesh"}) {
    for (const ordered_json* from : {&preset, &config})
      if (from->contains(key)) small[key].update((*from)[key]);
  }
  const std::string text = small.dump();
  const Config parsed =
      make<Config>(hws_config_parse, static_cast<const void*>(text.data()), text.size(), HWS_FORMAT_JSON);
  return integer_at(resolved_tree(parsed.get()), "/batch/global_batch");
}

/// Refuses a change of the global batch: each step of the run must have the same rows for every number of
/// ranks.
void check_global_batch(const ordered_json& before, const ordered_json& after) {
  const int64_t was = integer_at(before, "/batch/global_batch"),
                is = integer_at(after, "/batch/global_batch");
  if (was == is) return;
  const int64_t ranks = integer_at(after, "/mesh/dp_replicate") * integer_at(after, "/mesh/dp_shard");
  const int64_t unit = ranks * integer_at(after, "/batch/micro_batch");
  std::string text = "the resumed run would take " + std::to_string(is) +
                     " rows per step (micro_batch x grad_accum_steps x ranks), not " + std::to_string(was) +
                     " as before; ";
  if (was % unit == 0) {
    text += "keep them with --set /batch/grad_accum_steps=" + std::to_string(was / unit);
  } else {
    text += "choose /mesh, /batch/micro_batch and /batch/grad_accum_steps so that their product is " +
            std::to_string(was);
  }
  refuse(text);
}

/// Warns if more steps stretch the decay: if it ends at the last step, the learning rate jumps up.
void tell_of_stretched_schedule(const ordered_json& before, const ordered_json& after) {
  const int64_t was = integer_at(before, "/schedule/decay_steps"),
                is = integer_at(after, "/schedule/decay_steps");
  const std::string kind = after.at(ordered_json::json_pointer("/schedule/kind")).get<std::string>();
  const bool decays = kind == "cosine" || kind == "linear" || kind == "wsd";
  if (!decays || was == is) return;
  std::fprintf(stderr,
               "hawser: note: the %s schedule now ends at step %lld, not %lld, which changes the learning "
               "rate from here on; to keep the schedule as it was, add --set /schedule/decay_steps=%lld\n",
               kind.c_str(), static_cast<long long>(is), static_cast<long long>(was),
               static_cast<long long>(was));
}

}  // namespace

Config resume_config(const RunFolder& folder, const ConfigOptions& options) {
  check_sets(options.sets);
  Config run = load_config(folder.config_path());
  if (options.data.empty()) {
    find_own_rows(run.get(), folder);
  } else {
    apply_data(&run, options.data);
    make_paths_absolute(run.get());
  }
  check_data_is_there(run.get());
  const ordered_json before = resolved_tree(run.get());
  if (!options.config.empty()) {  // values that the run's own command line set take precedence
    const Config given = load_config(options.config);
    make_paths_absolute(given.get());
    compare_with_run(run.get(), folder, given.get(), options.config, folder.overrides());
  }
  apply_sets(run.get(), options.sets);
  if (options.threads > 0) {
    check(hws_config_set(run.get(), "/cpu/threads", std::to_string(options.threads).c_str()));
  }
  const ordered_json after = resolved_tree(run.get());
  check_global_batch(before, after);
  tell_of_stretched_schedule(before, after);
  return run;
}

Config same_run_config(const RunFolder& folder, const ConfigOptions& options) {
  if (options.config.empty()) return resume_config(folder, options);
  Config run = load_config(folder.config_path());
  find_own_rows(run.get(), folder);
  const ordered_json before = resolved_tree(run.get());
  const Config given = load_config(options);
  make_paths_absolute(given.get());
  compare_with_run(run.get(), folder, given.get(), "the command line's config", {});
  check_global_batch(before, resolved_tree(run.get()));
  return run;
}

void check_against_checkpoint(const RunFolder& folder, const hws_config* run, const std::string& checkpoint) {
  const auto held = parse_json(text_of(hws_checkpoint_inspect, checkpoint.c_str()));
  const ordered_json &config = held.at("config"), &model = held.at("model");
  const auto mine = parse_json(text_of(hws_config_serialize, run, HWS_FORMAT_JSON));
  const ordered_json here = mine.flatten(), there = config.flatten();
  std::string differences;
  const auto compare = [&](const std::string& pointer) {
    if (pointer.empty() || is_changeable(pointer)) return;
    // If the config does not set these fields, the folder of init.from defines the model and its tokens.
    const bool imported = pointer.starts_with("/model/") || pointer == "/data/vocabulary";
    if (here.contains("/init/from") && imported && !here.contains(pointer)) return;
    if (pointer == "/checkpoint/path" || pointer == "/batch/global_batch") return;  // handled below
    const ordered_json a = here.value(pointer, ordered_json()), b = there.value(pointer, ordered_json());
    if (a == b) return;
    const auto words = [](const ordered_json& v) { return v.is_null() ? std::string("not set") : v.dump(); };
    differences += "\n" + pointer + ": " + words(a) + " there, " + words(b) + " in the checkpoint";
  };
  for (const auto& [pointer, value] : here.items()) compare(pointer);
  for (const auto& [pointer, value] : there.items())
    if (!here.contains(pointer)) compare(pointer);
  const int64_t rows = global_batch_of(mine, model), were = global_batch_of(config, model);
  if (rows != were)
    differences += "\n/batch/global_batch: " + std::to_string(rows) + " rows in a step there, " +
                   std::to_string(were) + " in the checkpoint";
  if (differences.empty()) return;
  refuse(folder.config_path() + " is not the config that the run used up to " + checkpoint + differences +
         "\nRestore it to continue the run. To start a new run from its weights: --set /init/from=" +
         checkpoint + " --out NEW");
}

}  // namespace hawser::cli
