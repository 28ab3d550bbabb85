// Makes a TrainSession from the command line and runs it. Checks all input before anything is written.
#include "bindings/cli/train/train_once.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/report/flight.h"
#include "bindings/cli/run_folder.h"
#include "bindings/cli/text/prepare.h"
#include "bindings/cli/train/follow.h"
#include "bindings/cli/train/method_facts.h"
#include "bindings/cli/train/resume.h"
#include "bindings/cli/train/run_origin.h"
#include "bindings/cli/train/train_session.h"
#include "bindings/cli/train/usual_training.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

void set_checkpoint_path(hws_config* config, const std::string& folder) {
  const std::string path = absolute_path(folder + "/checkpoints");
  check(hws_config_set(config, "/checkpoint/path", ordered_json(path).dump().c_str()));
}

std::vector<std::string> override_pointers(const ConfigOptions& options) {
  std::vector<std::string> pointers;
  for (const std::string& set : options.sets) {
    std::string pointer, value;
    split_set(set, &pointer, &value);
    pointers.push_back(pointer);
  }
  if (!options.data.empty()) pointers.push_back("/data");
  if (options.threads > 0) pointers.push_back("/cpu/threads");
  return pointers;
}

double number_at(const ordered_json& tree, const char* pointer, double otherwise = 0.0) {
  const ordered_json::json_pointer at(pointer);
  return tree.contains(at) && tree[at].is_number() ? tree[at].get<double>() : otherwise;
}

std::string text_at(const ordered_json& tree, const char* pointer) {
  const ordered_json::json_pointer at(pointer);
  if (!tree.contains(at)) return "";
  if (tree[at].is_number_float()) return number_text(tree[at].get<double>());
  return tree[at].is_string() ? tree[at].get<std::string>() : tree[at].dump();
}

/// Returns the text file if a run has exactly one; "" for other data.
std::string only_text_file(const ordered_json& resolved) {
  if (text_at(resolved, "/data/format") != "text") return "";
  const ordered_json::json_pointer validation("/data/validation_sources"), sources("/data/sources");
  if (resolved.contains(validation) && !resolved[validation].empty()) return "";
  if (resolved.contains(sources) && resolved[sources].size() == 1)
    return text_at(resolved, "/data/sources/0/path");
  const bool several = resolved.contains(sources) && resolved[sources].size() > 1;
  return several ? "" : text_at(resolved, "/data/path");
}

/// Returns a note on which part of a text is held out. If several texts were concatenated, that is the end of
/// the last one, which may differ from everything trained on.
std::string validation_words(const ordered_json& resolved) {
  const ordered_json::json_pointer sources("/data/validation_sources");
  if (text_at(resolved, "/data/format") != "text" || number_at(resolved, "/train/eval_every") == 0) return "";
  if (resolved.contains(sources) && !resolved[sources].empty()) return "";
  return format_text(
      "the last %g%% of each file; if a file joins several texts, name others in "
      "/data/validation_sources",
      100.0 * number_at(resolved, "/data/validation_fraction"));
}

SessionSettings make_settings(const ordered_json& resolved, const ordered_json& info,
                              const TrainOptions& options) {
  const RankOptions& ranks = options.ranks;
  SessionSettings settings;
  settings.profile = options.profile;
  settings.go_on = text_at(resolved, "/checkpoint/on_error") == "go_on";
  settings.log_every = static_cast<int64_t>(number_at(resolved, "/train/log_every", 10));
  settings.sample_every = static_cast<int64_t>(number_at(resolved, "/train/sample_every"));
  settings.threads = static_cast<int32_t>(number_at(info, "/threads"));
  const auto world = static_cast<int32_t>(number_at(info, "/ranks", 1));
  settings.ranks_here = ranks.comm.empty() ? world : 1;
  settings.processes = world / settings.ranks_here;
  const std::string precision = text_at(resolved, "/precision");
  settings.bf16 = precision.starts_with("bf16") || precision == "fp8";
  settings.text_file = only_text_file(resolved);
  settings.validation_fraction = number_at(resolved, "/data/validation_fraction");
  return settings;
}

/// The contents of config.json, set and resolved. checkpoint.path stays as given, because the folder may
/// move.
struct RunConfig {
  ordered_json resolved;
  std::string as_set_text, resolved_text;
};

RunConfig describe(const hws_config* config) {
  RunConfig run;
  run.resolved = resolved_tree(config);
  run.as_set_text = parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON)).dump(2);
  run.resolved_text = run.resolved.dump(2);
  return run;
}

RunFacts make_facts(const std::string& name, const RunConfig& config, const ordered_json& info,
                    const ordered_json& data) {
  const ordered_json& resolved = config.resolved;
  RunFacts facts;
  facts.name = name;
  facts.config_json = config.as_set_text;
  facts.total_steps = static_cast<int64_t>(number_at(resolved, "/train/steps"));
  facts.parameters = number_at(info, "/parameters");
  facts.flops_per_token = number_at(info, "/flops_per_token");
  facts.memory_bytes = number_at(info, "/memory/planned_bytes");
  facts.tokens_per_epoch = number_at(data, "/train_tokens");
  facts.tokens_per_row = number_at(info, "/sequence");
  const auto at = [&](const char* pointer) { return text_at(resolved, pointer); };
  const auto at_info = [&](const char* pointer) { return text_at(info, pointer); };
  const auto whole = [&](const char* pointer) { return static_cast<int64_t>(number_at(resolved, pointer)); };
  const auto row = [&](const std::string& label, const std::string& value) {
    facts.table.emplace_back(label, value);
  };
  row("model", counted(whole("/model/layers"), "layer") + ", width " + at("/model/width") + ", " +
                   counted(whole("/model/heads"), "head") + ", MLP " + at("/model/mlp_width") + ", context " +
                   at("/model/context") + ", vocabulary " + at("/model/vocab_size"));
  if (at("/model/head") == "score")
    row("head", info.contains("new_head")
                    ? "a score, new: its values are random, and the language head is left out"
                    : "a score");
  row("parameters", count_text(facts.parameters));
  for (const auto& [label, value] : method_facts(resolved, info)) row(label, value);
  row("precision", at("/precision"));
  facts.ranks = static_cast<int64_t>(number_at(info, "/ranks", 1));
  const bool many = facts.ranks > 1;
  row("batch", counted(whole("/batch/micro_batch"), "row") + " of " + at("/batch/sequence") + " tokens, " +
                   counted(whole("/batch/grad_accum_steps"), "micro-batch") + " per step" +
                   (many ? " on each rank, " + at("/batch/global_batch") + " rows in all" : "") +
                   (resolved.at("batch").contains("ramp") ? " (the largest step of batch.ramp)" : ""));
  row("optimizer", at("/optimizer/kind") + ", learning rate " + at("/optimizer/learning_rate") + ", " +
                       at("/schedule/kind") + ", weight decay " + at("/optimizer/weight_decay") + ", clip " +
                       at("/optimizer/clip_norm"));
  row("data", count_text(number_at(data, "/train_tokens")) + " training tokens, " +
                  count_text(number_at(data, "/validation_tokens")) + " validation tokens");
  if (const std::string split = validation_words(resolved); !split.empty()) row("validation", split);
  for (const auto& [label, value] : kept_facts(data)) row(label, value);
  row("Hugging Face", at_info("/hugging_face"));
  row("seed", at("/seed"));
  if (many) {
    std::string degrees = "dp_replicate " + at("/mesh/dp_replicate") + " x dp_shard " + at("/mesh/dp_shard");
    for (const char* axis : {"cp", "tp"})
      if (const std::string degree = at(("/mesh/" + std::string(axis)).c_str()); degree != "1")
        degrees += " x " + std::string(axis) + " " + degree;
    if (at("/mesh/ep") != "1") degrees += ", ep " + at("/mesh/ep");
    row("ranks", std::to_string(facts.ranks) + " (" + degrees + "), ZeRO stage " + at("/zero/stage"));
  }
  row("CPU", text_at(info, "/cpu_level") + ", " + text_at(info, "/threads") + " threads" +
                 (many ? " for each rank" : ""));
  row("planned memory", bytes_text(facts.memory_bytes) + (many ? " for each rank" : ""));
  row("library", std::string("hawser ") + hws_library_version());
  return facts;
}

void print_heading(const RunFacts& facts, const RunFolder* folder) {
  output().print("%s: %s parameters, %s planned%s\n", facts.name.c_str(),
                 count_text(facts.parameters).c_str(), bytes_text(facts.memory_bytes).c_str(),
                 facts.ranks > 1 ? " for each rank" : "");
  for (const auto& [label, value] : facts.table) {
    if (is_method_fact(label) || label == "head" || label == "data" || label == "validation" ||
        label == "reference" || label == "Hugging Face" || label == "ranks" || label == "CPU")
      output().print("%s: %s\n", label.c_str(), value.c_str());
  }
  if (folder != nullptr) output().print("run: %s\n", folder->path().c_str());
  output().flush();
}

int train(const std::string& name, const RunConfig& config, hws_engine* engine, const TrainOptions& options,
          const PromptSamples& samples, RunFolder* folder, History history) {
  const auto info = parse_json(text_of(hws_engine_info, engine));
  const auto data = parse_json(text_of(hws_data_info, engine));
  RunFacts facts = make_facts(name, config, info, data);
  const SessionSettings settings = make_settings(config.resolved, info, options);
  const auto step = static_cast<int64_t>(number_at(info, "/step"));
  print_heading(facts, folder);
  for (const char* const field : {"/device_without", "/registered_without"})
    if (const std::string without = text_at(info, field); !without.empty())
      std::fprintf(stderr, "hawser: note: running slower than possible: %s\n", without.c_str());
  if (info.contains("older_decay"))
    std::fprintf(
        stderr,
        "hawser: note: an older version of Hawser began this run, so it keeps that version's learning "
        "rates: the last step of the decay has the minimum (/schedule/min_learning_rate)\n");
  if (step >= facts.total_steps) {
    output().print("the run is already at step %lld of %lld; to train longer, add --set /train/steps=N\n",
                   static_cast<long long>(step), static_cast<long long>(facts.total_steps));
    return kExitOk;
  }
  if (folder == nullptr && text_at(config.resolved, "/checkpoint/path").empty()) {
    output().print("note: without --out, nothing of this run is kept\n");
  }
  if (folder != nullptr) {
    folder->note_start(step);
    const auto origin = run_origin(*folder, config.resolved, options.ranks);
    facts.table.insert(facts.table.begin(), origin.begin(), origin.end());
  }
  facts.answers = std::move(history.answers);
  TrainSession session(engine, folder, std::move(facts), settings, samples, std::move(history.rows), step);
  return session.run();
}

/// True if a file, preset, --set or --data names data to train on.
bool names_data(const hws_config* config) {
  const auto tree = parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
  return tree.contains(ordered_json::json_pointer("/data/path")) ||
         tree.contains(ordered_json::json_pointer("/data/sources"));
}

int64_t sample_every(const RunConfig& config) {
  return static_cast<int64_t>(number_at(config.resolved, "/train/sample_every"));
}

/// Returns the config for the available ranks. For an elastic run it is derived from the config as the user
/// gave it.
Config for_these_ranks(const hws_config* config, const TrainOptions& options) {
  if (options.elastic && !options.ranks.comm.empty())
    return make<Config>(hws_config_fit_ranks, config, options.ranks.world);
  return make<Config>(hws_config_clone, config);
}

bool saves_never(const hws_config* config) {
  const ordered_json resolved = resolved_tree(config);
  return number_at(resolved, "/checkpoint/every") == 0 &&
         number_at(resolved, "/checkpoint/every_seconds") == 0;
}

/// A run that is ready for its first or next step.
struct Run {
  std::string folder, name;  ///< "" to keep nothing
  RunConfig kept, used;      ///< kept: in the folder; used: by these ranks
  Engine engine;
};

/// Trains. `open` gives the leading process the run's folder and its rows. On failure writes the flight
/// record.
template <typename Open>
int train_on(const Run& run, const TrainOptions& options, const std::function<void(int64_t)>& began,
             const Open& open) {
  hws_engine* const engine = run.engine.get();
  std::optional<RunFolder> folder;
  bool writes = false;
  try {
    const auto info = parse_json(text_of(hws_engine_info, static_cast<const hws_engine*>(engine)));
    const PromptSamples samples(engine, run.used.resolved);
    const auto step = static_cast<int64_t>(number_at(info, "/step"));
    writes = true;
    if (!leads(options.ranks)) {
      began(step);
      return follow(engine, sample_every(run.used), samples);
    }
    History history = open(step, &folder);
    if (options.elastic) folder->note_ranks(step, static_cast<int64_t>(number_at(info, "/ranks", 1)));
    if (folder && info.contains("choices")) folder->note_choices(step, info.at("choices").dump());
    began(step);
    return train(run.name, run.used, engine, options, samples, folder ? &*folder : nullptr,
                 std::move(history));
  } catch (Failure& failure) {
    if (writes) failure.note_written();
    // An elastic run continues, so its records are kept but not reported.
    keep_flight(engine, folder ? folder->path() : run.folder, options.ranks.rank,
                leads(options.ranks) && !options.elastic, failure);
    throw;
  }
}

int start(const TrainOptions& options, const std::function<void(int64_t)>& began) {
  if (options.config.config.empty())
    refuse("train needs a CONFIG: a JSON file, a preset name (see `hawser presets`) or a model folder");
  const bool keep = !options.out.empty();
  if (keep && leads(options.ranks)) RunFolder::clear_unfinished(options.out);
  if (keep && (!options.elastic || leads(options.ranks))) RunFolder::check_unused(options.out);
  const Config config = load_config(options.config);
  if (!names_data(config.get())) {
    refuse("the config names no training data; give --data FILE, or set /data/path and /data/format");
  }
  const std::string chosen = choose_training(config.get(), options.config);
  if (!chosen.empty() && leads(options.ranks)) output().line(chosen);
  make_paths_absolute(config.get());
  const Config here = for_these_ranks(config.get(), options);
  check_ranks(options.ranks, here.get());
  if (options.elastic && leads(options.ranks) && saves_never(here.get()))
    std::fprintf(stderr,
                 "hawser: note: /checkpoint/every and every_seconds are 0, so a run that loses ranks starts "
                 "over; set one of them\n");
  Run run{options.out, keep ? folder_name(options.out) : options.config.config, describe(config.get()),
          describe(here.get()), nullptr};
  if (keep) set_checkpoint_path(here.get(), options.out);
  run.engine = make_engine(here.get(), 0u, options.ranks);
  return train_on(run, options, began, [&](int64_t, std::optional<RunFolder>* folder) {
    if (keep)
      folder->emplace(RunFolder::create(options.out, run.kept.as_set_text, run.kept.resolved_text,
                                        override_pointers(options.config)));
    return History();
  });
}

struct LoadedCheckpoint {
  std::string name;                  ///< "" if there was none
  std::vector<std::string> damaged;  ///< names of damaged checkpoints that were skipped
};

/// Loads the newest checkpoint. A run that was killed before its first checkpoint starts again. A run that
/// never saves does not start again, because its metric rows would be lost. If the checkpoint does not match
/// and the run's `config` was edited by hand, the error names the edit as the reason.
LoadedCheckpoint load_newest(hws_engine* engine, const RunFolder& folder, const hws_config* config,
                             const TrainOptions& options) {
  try {
    const std::string text = text_of(hws_checkpoint_load_latest, engine, folder.checkpoints_path().c_str(),
                                     options.other_data ? HWS_LOAD_OTHER_DATA : 0u);
    const auto json = parse_json(text);
    LoadedCheckpoint loaded{json.at("name").get<std::string>(), {}};
    for (const auto& damaged : json.at("damaged")) loaded.damaged.push_back(damaged.at("name"));
    return loaded;
  } catch (const Failure& failure) {
    if (failure.status() == HWS_CHECKPOINT_INCOMPATIBLE)
      check_against_checkpoint(folder, config,
                               text_of(hws_checkpoint_latest, folder.checkpoints_path().c_str()));
    if (failure.status() != HWS_NOT_FOUND || (!options.elastic && saves_never(config))) throw;
    return {};
  }
}

int resume(const TrainOptions& options, const std::function<void(int64_t)>& began) {
  if (!options.elastic && options.config.sets_method())
    refuse(
        "--lora, --qlora, --dora, --dpo, --objective and --teacher set the method of a new run, but a "
        "resumed run keeps its method; leave them out");
  const bool first = leads(options.ranks);
  RunFolder opened = first ? RunFolder::open(options.resume) : RunFolder::look_into(options.resume);
  const Config config =
      options.elastic ? same_run_config(opened, options.config) : resume_config(opened, options.config);
  const Config here = for_these_ranks(config.get(), options);
  check_ranks(options.ranks, here.get());
  Run run{opened.path(), folder_name(opened.path()), describe(config.get()), describe(here.get()), nullptr};
  set_checkpoint_path(here.get(), opened.path());
  run.engine = make_engine(here.get(), 0u, options.ranks);
  const LoadedCheckpoint loaded = load_newest(run.engine.get(), opened, config.get(), options);
  if (!loaded.name.empty())
    check_against_checkpoint(opened, config.get(), opened.checkpoints_path() + "/" + loaded.name);
  return train_on(run, options, began, [&](int64_t step, std::optional<RunFolder>* folder) {
    folder->emplace(std::move(opened));
    // Damaged checkpoints are moved only after another one is loaded; until then nothing of the run changes.
    for (const std::string& path : (*folder)->set_aside_checkpoints(loaded.damaged)) {
      std::fprintf(stderr, "hawser: note: a damaged checkpoint was moved to %s\n", path.c_str());
    }
    History history = (*folder)->keep_until(step);
    if (step < number_at(run.used.resolved, "/train/steps")) {  // otherwise nothing runs and nothing changes
      (*folder)->write_config(run.kept.as_set_text, run.kept.resolved_text);
    }
    output().print(
        "resuming %s from %s\n", run.folder.c_str(),
        loaded.name.empty() ? "its beginning" : ((*folder)->checkpoints_path() + "/" + loaded.name).c_str());
    return history;
  });
}

}  // namespace

int train_once(const TrainOptions& asked, const std::function<void(int64_t)>& began) {
  const TrainOptions options = with_prepared_data(asked);
  if (options.other_data && options.resume.empty())
    refuse("--other-data only works with --resume: a new run has no earlier data to differ from");
  if (!options.elastic) return options.resume.empty() ? start(options, began) : resume(options, began);
  TrainOptions now = options;
  const std::string& folder = options.out.empty() ? options.resume : options.out;
  const bool begun = RunFolder::is_run(folder);
  if (!begun && options.out.empty()) return resume(options, began);  // reports what the folder lacks
  now.out = begun ? "" : folder;
  now.resume = begun ? folder : "";
  return begun ? resume(now, began) : start(now, began);
}

}  // namespace hawser::cli
