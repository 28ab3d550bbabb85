#include "bindings/cli/model_card.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bindings/cli/file_failure.h"
#include "bindings/cli/hub_cache.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/report/metric_row.h"
#include "bindings/cli/run_folder.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Returns the file's text; "" if it cannot be read.
std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the value at the pointer, or null.
ordered_json at(const ordered_json& json, const char* pointer) {
  const ordered_json::json_pointer p(pointer);
  return json.contains(p) ? json.at(p) : ordered_json();
}

/// Returns the license in the card of the base model; "unknown" without one.
std::string license_of(const std::string& base) {
  std::ifstream card(base + "/README.md");
  std::string line;
  if (!std::getline(card, line) || line != "---") return "unknown";
  while (std::getline(card, line) && line != "---")
    if (line.starts_with("license:")) {
      const size_t value = line.find_first_not_of(" '\"", 8);
      if (value == line.npos) break;
      return line.substr(value, line.find_last_not_of(" '\"\r") + 1 - value);
    }
  return "unknown";
}

struct Losses {
  int64_t steps = 0, tokens = 0;
  std::optional<double> training, validation, best;
  int64_t best_step = 0;
};

Losses losses_of(const std::string& run) {
  Losses losses;
  for (const MetricRow& row : rows_of(text_of_file(run + "/metrics.jsonl"), INT64_MAX)) {
    losses.steps = row.step;
    losses.tokens += row.tokens;
    losses.training = row.loss;
    if (std::isnan(row.validation_loss)) continue;
    losses.validation = row.validation_loss;
    if (!losses.best || row.validation_loss < *losses.best) {
      losses.best = row.validation_loss;
      losses.best_step = row.step;
    }
  }
  return losses;
}

std::string front_matter(const std::string& base, const std::string& objective, bool adapter) {
  std::string text = "---\n";
  text += "license: " + license_of(base) + "\n";
  if (const std::string name = hub_name(base); !name.empty())
    text += "base_model: " + name + "\nbase_model_relation: " + (adapter ? "adapter" : "finetune") + "\n";
  text += std::string("library_name: ") + (adapter ? "peft" : "transformers") + "\n";
  text += "pipeline_tag: text-generation\ntags:\n- hawser\n";
  if (adapter) text += "- lora\n";
  if (objective != "cross_entropy") text += "- " + objective + "\n";
  return text + "---\n\n";
}

/// Returns `name` within code marks, with the marks doubled that Markdown would take.
std::string code(const std::string& text) {
  return text.find('`') == text.npos ? "`" + text + "`" : "`` " + text + " ``";
}

std::string table_row(const std::string& name, const std::string& value) {
  return "| " + name + " | " + value + " |\n";
}

std::string facts(const ordered_json& resolved, const Losses& losses, const std::string& base,
                  const std::string& objective) {
  std::string text = "| | |\n|---|---|\n";
  if (!base.empty()) text += table_row("base model", code(hub_name(base).empty() ? base : hub_name(base)));
  for (const auto& source : at(resolved, "/data/sources"))
    text += table_row("training data", code(source.value("path", "")));
  for (const auto& source : at(resolved, "/data/validation_sources"))
    text += table_row("validation data", code(source.value("path", "")));
  text += table_row("objective", objective);
  if (at(resolved, "/adapter/rank").is_number() && at(resolved, "/adapter/rank") > 0)
    text += table_row("adapter", "rank " + at(resolved, "/adapter/rank").dump() + ", alpha " +
                                     at(resolved, "/adapter/alpha").dump());
  text += table_row(
      "steps", std::to_string(losses.steps) + ", " + std::to_string(losses.tokens) + " tokens with a loss");
  if (losses.training) text += table_row("training loss, last step", loss_text(*losses.training));
  if (losses.validation) text += table_row("validation loss, last", loss_text(*losses.validation));
  if (losses.best)
    text += table_row("validation loss, best",
                      loss_text(*losses.best) + " at step " + std::to_string(losses.best_step));
  text +=
      table_row("precision",
                at(resolved, "/precision").is_string() ? at(resolved, "/precision").get<std::string>() : "");
  return text;
}

}  // namespace

void write_model_card(const std::string& run, const std::string& folder, bool adapter) {
  if (!RunFolder::is_run(run) || exists(folder + "/README.md")) return;
  const ordered_json resolved = parse_json_or_discard(text_of_file(run + "/resolved.json"));
  const std::string config = text_of_file(run + "/config.json");
  if (!resolved.is_object()) return;
  const ordered_json from = at(resolved, "/init/from"), kind = at(resolved, "/objective/kind");
  const std::string base = from.is_string() ? from.get<std::string>() : "";
  const std::string objective = kind.is_string() ? kind.get<std::string>() : "cross_entropy";
  const std::string name = folder.substr(folder.find_last_of('/', folder.size() - 2) + 1);
  std::string text = front_matter(base, objective, adapter) + "# " + name + "\n\n";
  text += base.empty() ? "Trained from scratch with Hawser " : "Fine-tuned with Hawser ";
  text += std::string(hws_library_version()) + ".\n\n" + facts(resolved, losses_of(run), base, objective);
  text += "\n`hawser train config.json` repeats the run with this config:\n\n```json\n" + config;
  text += (config.ends_with('\n') ? "" : "\n") + std::string("```\n");
  replace_file(folder + "/README.md", text);
}

}  // namespace hawser::cli
