// Implements `hawser prepare`: its arguments, its report as a table, and rows as the model sees them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/argument_checks.h"
#include "bindings/cli/client.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/hub_cache.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/text/prepare.h"
#include "bindings/cli/text/prepare_arguments.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

void row(const char* label, const std::string& value) { output().print("%-12s %s\n", label, value.c_str()); }

std::string number(const ordered_json& value) { return count_text(value.get<double>()); }

void print_report(const ordered_json& r) {
  const ordered_json &length = r.at("length"), &dropped = r.at("dropped"), &cut = r.at("cut");
  std::string forms;
  for (const auto& [form, count] : r.at("forms").items())
    forms += (forms.empty() ? "" : ", ") + number(count) + " " + form;
  row("read", counted(r.at("rows"), "row") + " (" + forms + ")");
  row("prepared", counted(r.at("prepared_rows"), "row") + " of " + r.at("sequence").dump() + " tokens" +
                      (r.at("packed") ? ", packed" : "") + (r.at("pairs") ? ", in pairs" : "") +
                      format_text(", %.1f%% left empty", 100 * r.at("empty_share").get<double>()));
  row("learned", number(r.at("learned_tokens")) + " of " + number(r.at("tokens")) +
                     format_text(" tokens (%.0f%%)", 100 * r.at("learned_share").get<double>()));
  row("length", "median " + number(length.at("p50")) + ", 90%: " + number(length.at("p90")) +
                    ", 99%: " + number(length.at("p99")) + ", longest " + number(length.at("max")));
  row("cut", counted(cut.at("rows"), "row") + ", " + counted(cut.at("tokens"), "token"));
  row("dropped", number(dropped.at("longer_than_sequence")) + " longer than a row, " +
                     number(dropped.at("nothing_learned")) + " that teach nothing, " +
                     number(dropped.at("answer_cut_away")) + " whose answer was cut away");
  for (const std::string& note : notes_of(r)) row("note", note);
  row("template", r.at("template").get<std::string>());
  row("folder", r.at("folder").get<std::string>() + (r.at("reused") ? " (it was there already)" : ""));
}

/// True if stdout is a terminal and NO_COLOR is unset or empty.
bool colours() {
  const char* const none = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (none == nullptr || *none == '\0');
}

/// Prints a row. Text that is trained on is coloured on a terminal, and otherwise stands between [[ and ]].
void show(const std::string& folder, int64_t index) {
  const bool colour = colours();
  const std::string begin = colour ? "\033[1;32m" : "[[", end = colour ? "\033[0m" : "]]";
  const auto found = parse_json(text_of(hws_data_preview, folder.c_str(), index));
  output().print("--- row %lld of %lld: %lld of %lld tokens\n", static_cast<long long>(index),
                 found.at("rows").get<long long>(), found.at("tokens").get<long long>(),
                 found.at("sequence").get<long long>());
  for (const ordered_json& document : found.at("documents")) {
    std::string text = document.at("text");
    for (auto span = document.at("learned").rbegin(); span != document.at("learned").rend(); ++span) {
      text.insert(span->at(1).get<size_t>(), end);
      text.insert(span->at(0).get<size_t>(), begin);
    }
    output().line(text);
    output().print("---\n");
  }
}

int64_t usual_sequence(const std::string& model) {
  if (!is_folder(model) || (!exists(model + "/config.json") && !exists(model + "/manifest.json")))
    refuse("--sequence N is needed: " + model +
           " is a tokenizer alone, which does not say how long rows are");
  const Config config = load_config(model);
  return resolved_tree(config.get()).at(ordered_json::json_pointer("/batch/sequence")).get<int64_t>();
}

int run_prepare(PrepareOptions options) {
  options.model = existing_model(options.model);
  if (is_prepared(options.model)) {  // only shows the rows
    options.out = options.model;
    if (options.show == 0) options.show = 1;
  } else {
    if (options.data.empty() || options.out.empty())
      refuse("prepare needs --data FILE and -o DIR; of a folder of prepared rows, it shows rows");
    const bool itself = !is_folder(options.model) || exists(options.model + "/tokenizer.json");
    if (!itself) options.model = find_model(options.model).path;
    if (options.sequence == 0) options.sequence = usual_sequence(options.model);
    const auto report = parse_json(prepare_rows(options));
    if (options.json)
      output().line(report.dump(2));
    else
      print_report(report);
    options.show = std::min(options.show, report.at("prepared_rows").get<int64_t>());
  }
  for (int64_t i = 0; i < options.show; ++i) show(options.out, i);
  return kExitOk;
}

}  // namespace

void add_prepare(CLI::App* app, std::function<int()>* action) {
  auto o = std::make_shared<PrepareOptions>();
  CLI::App* sub =
      app->add_subcommand("prepare", "Turn text or conversations into rows of tokens to train on");
  sub->add_option("model", o->model,
                  "Model folder with tokenizer.json, or that file; or prepared rows to show")
      ->type_name("MODEL")
      ->required();
  sub->add_option("--data", o->data, "Files of rows: JSON Lines, JSON, Parquet or text")->type_name("FILE");
  sub->add_option("-o,--output", o->out, "New folder to write")->type_name("DIR");
  sub->add_option("--sequence", o->sequence, "Tokens of a row (default: as the model's config)")
      ->check(whole_number(2));
  sub->add_option("--long", o->longer, "Cut longer rows at their end, or drop them (default: cut)")
      ->check(CLI::IsMember({"cut", "drop"}));
  sub->add_option(
         "--unprinted", o->unprinted,
         "Refuse fields of a row that the chat template does not print, or drop them (default: refuse)")
      ->check(CLI::IsMember({"refuse", "drop"}));
  sub->add_flag_callback(
      "--no-packing", [o] { o->packing = false; }, "Give each document a row of its own");
  sub->add_option("--template", o->chat_template,
                  "Chat template: a file, or plain, chatml, llama2, llama3 (default: the model's)")
      ->type_name("FILE|NAME");
  sub->add_option("--threads", o->threads, "CPU threads (default: all that this process may use)")
      ->check(whole_number(1));
  sub->add_option("--seed", o->seed, "Random seed of the order of the rows")->check(whole_number(0));
  sub->add_option("--show", o->show, "Print this many rows as the model sees them, with what is learned")
      ->check(whole_number(0));
  sub->add_flag("--json", o->json, "Print the report as JSON");
  sub->callback([=] { *action = [o] { return run_prepare(*o); }; });
}

}  // namespace hawser::cli
