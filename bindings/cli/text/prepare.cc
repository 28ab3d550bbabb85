#include "bindings/cli/text/prepare.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "bindings/cli/client.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/hub_cache.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/ranks.h"
#include "bindings/cli/report/progress_bar.h"
#include "bindings/cli/run_folder.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kRowEndings[] = {".jsonl", ".ndjson", ".json", ".parquet"};

void show(ProgressBar* bar, const ordered_json& now) {
  const double done = now.at("done_bytes"), total = now.at("total_bytes");
  bar->show(total > 0 ? done / total : 1,
            count_text(now.at("rows")) + " rows  " + bytes_text(done / bar->seconds()) + "/s ");
}

struct Listener {
  ProgressBar bar;
  CallbackError error;
};

void told(void* user, const char* json, size_t size) {
  auto* const listener = static_cast<Listener*>(user);
  listener->error.hold([&] { return show(&listener->bar, parse_json(std::string_view(json, size))), 0; });
}

std::string request_of(const PrepareOptions& options) {
  ordered_json request = {{"model", options.model},     {"files", options.data},
                          {"out", options.out},         {"sequence", options.sequence},
                          {"packing", options.packing}, {"threads", options.threads}};
  if (!options.longer.empty()) request["long"] = options.longer;
  if (!options.unprinted.empty()) request["unprinted"] = options.unprinted;
  if (!options.chat_template.empty()) request["template"] = options.chat_template;
  if (options.seed > 0) request["seed"] = options.seed;
  if (options.pairs) request["pairs"] = *options.pairs;
  return request.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// Sets how the run's rows are prepared, as its config specifies.
void ask_as_config(const ConfigOptions& config, PrepareOptions* asked) {
  ConfigOptions without_data = config;
  without_data.data.clear();
  const ordered_json resolved = resolved_tree(load_config(without_data).get());
  asked->sequence = resolved.at(ordered_json::json_pointer("/batch/sequence")).get<int64_t>();
  asked->pairs = resolved.at(ordered_json::json_pointer("/objective/kind")) != "cross_entropy";
  asked->threads = config.threads;
}

/// Waits, on a rank other than the first, until the first rank has prepared the rows.
void wait_for(const std::string& folder) {
  const InterruptScope scope;
  while (!is_prepared(folder)) {
    if (InterruptScope::interrupted()) throw Failure(HWS_CANCELLED, "interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Returns the names of the given options on preparing; "" if none was given.
std::string preparing_options(const TrainOptions& options) {
  std::string names;
  const auto add = [&](bool given, const char* name) {
    if (given) names += (names.empty() ? "" : ", ") + std::string(name);
  };
  add(!options.chat_template.empty(), "--template");
  add(!options.longer.empty(), "--long");
  add(!options.unprinted.empty(), "--unprinted");
  add(!options.packing, "--no-packing");
  return names;
}

void check_nothing_to_prepare(const TrainOptions& options) {
  const std::string names = preparing_options(options);
  if (!names.empty())
    refuse(names + ": nothing is prepared here, which takes a model folder and --data with rows (" +
           ".jsonl, .ndjson, .json or .parquet); to prepare other files: hawser prepare");
}

/// Refuses options that would change the rows of a resumed run, because it continues with its prepared rows.
void check_resumed(const TrainOptions& options, bool rows) {
  const std::string own = prepared_folder_of(options.resume), names = preparing_options(options);
  if (rows && is_prepared(own))
    refuse("--data " + options.config.data + ": the run goes on with its own rows, in " + own +
           "; leave --data out");
  if (!names.empty()) refuse(names + ": the rows of a run are prepared when it starts; leave this out");
}

}  // namespace

std::string prepared_folder_of(const std::string& run) { return run + "/data"; }

bool names_rows(const std::string& path) {
  if (is_folder(path)) return false;
  for (const char* ending : kRowEndings)
    if (path.ends_with(ending)) return true;
  return false;
}

bool is_prepared(const std::string& folder) { return exists(folder + "/prepared.json"); }

std::vector<std::string> notes_of(const ordered_json& report) {
  std::vector<std::string> notes;
  std::string fields;
  for (const auto& [name, count] : report.at("unprinted").items())
    fields += (fields.empty() ? "" : ", ") + count_text(count.get<double>()) + " " + name;
  if (!fields.empty())
    notes.push_back("the chat template does not print these fields, so they were dropped: " + fields);
  if (const ordered_json training = report.value("training_template", ordered_json()); !training.is_null())
    notes.push_back(count_text(training.at("rows").get<double>()) + " of " +
                    counted(report.at("rows"), "row") + " by the training template " +
                    training.at("family").get<std::string>() + ", because " +
                    training.at("reason").get<std::string>());
  if (const double endless = report.at("without_end"); endless > 0)
    notes.push_back("rows that end without a token that ends them: " + count_text(endless) +
                    "; the model does not learn to stop there, because neither the tokenizer nor config.json "
                    "names such a token, or the template puts none behind answers");
  return notes;
}

std::string prepare_rows(const PrepareOptions& options) {
  const InterruptScope scope;
  Listener listener;
  hws_buffer* report = nullptr;
  const int32_t status = hws_data_prepare(request_of(options).c_str(), told, &listener, nullptr, &report);
  const Buffer owned(report);
  listener.bar.finish();
  check(status);
  listener.error.rethrow();
  return std::string(static_cast<const char*>(hws_buffer_data(report)), hws_buffer_size(report));
}

namespace {

/// Prepares into a run's folder. On an error removes the folder if this call created it.
std::string prepare_into(const std::string& run, const PrepareOptions& asked) {
  const bool there = exists(run);
  try {
    return prepare_rows(asked);
  } catch (...) {
    std::error_code ignored;
    if (!there) std::filesystem::remove(run, ignored);
    throw;
  }
}

}  // namespace

TrainOptions with_prepared_data(TrainOptions options) {
  ConfigOptions& config = options.config;
  const bool rows = names_rows(config.data);
  if (!options.resume.empty()) {
    check_resumed(options, rows);
    return options;
  }
  if (!rows || !is_folder(model_folder(config.config))) {
    check_nothing_to_prepare(options);
    return options;
  }
  const std::string model = find_model(config.config).path;
  if (options.out.empty())
    refuse("--data " + config.data + " needs --out DIR: its rows are prepared into the run's folder");
  const std::string folder = prepared_folder_of(options.out);
  if (RunFolder::is_run(options.out)) {
    // A run that continues already has its rows.
  } else if (leads(options.ranks)) {
    PrepareOptions asked;
    asked.model = model;
    asked.data = {config.data};
    asked.out = folder;
    asked.chat_template = options.chat_template;
    asked.longer = options.longer;
    asked.unprinted = options.unprinted;
    asked.packing = options.packing;
    ask_as_config(config, &asked);
    RunFolder::check_unused(options.out);
    const auto report = parse_json(prepare_into(options.out, asked));
    if (!report.at("reused"))
      output().print("prepared: %s of %lld tokens from %s%s, %.0f%% learned\n",
                     counted(report.at("prepared_rows"), "row").c_str(),
                     report.at("sequence").get<long long>(), count_text(report.at("rows")).c_str(),
                     asked.pairs == true ? " pairs" : "", 100 * report.at("learned_share").get<double>());
    if (!report.at("reused"))
      for (const std::string& note : notes_of(report)) output().print("note: %s\n", note.c_str());
  } else {
    wait_for(folder);
  }
  config.data = folder;
  return options;
}

}  // namespace hawser::cli
