// Writes and reads a MetricRow as one line of JSON.
#include "bindings/cli/report/metric_row.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/parse_json.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kOutcomes[] = {"accepted", "skipped_non_finite", "skipped_outlier", "discarded",
                                     "pending",  "skipped_overflow",   "rewound"};

double number(const ordered_json& row, const char* key) {
  if (!row.contains(key) || !row[key].is_number()) return std::numeric_limits<double>::quiet_NaN();
  return row[key].get<double>();
}

int64_t integer(const ordered_json& row, const char* key) {
  return row.contains(key) && row[key].is_number_integer() ? row[key].get<int64_t>() : 0;
}

}  // namespace

Preferences preferences_of(const ordered_json& json) {
  return {json.dump(), number(json, "margin"), number(json, "accuracy")};
}

MetricRow row_of(const hws_train_record& record) {
  MetricRow row;
  row.step = record.step;
  row.loss = record.loss;
  row.validation_loss = record.validation_loss;
  row.learning_rate = record.learning_rate;
  row.grad_norm = record.grad_norm;
  row.tokens = record.tokens;
  row.samples = record.samples;
  row.tokens_per_second = record.tokens_per_second;
  row.seconds = record.seconds;
  row.skipped = record.skipped;
  row.outcome = record.outcome;
  row.communication_bytes = record.communication_bytes;
  return row;
}

const char* outcome_name(int32_t outcome) {
  return outcome >= 0 && outcome < static_cast<int32_t>(std::size(kOutcomes)) ? kOutcomes[outcome]
                                                                              : "unknown";
}

std::string to_json(const MetricRow& row) {
  ordered_json json;
  json["step"] = row.step;
  json["loss"] = row.loss;
  if (!std::isnan(row.validation_loss)) json["validation_loss"] = row.validation_loss;
  for (const auto& [name, loss] : row.validation_losses) json["validation_losses"][name] = loss;
  if (row.ended_early) json["ended_early"] = true;
  json["learning_rate"] = row.learning_rate;
  json["grad_norm"] = row.grad_norm;
  json["tokens"] = row.tokens;
  json["samples"] = row.samples;
  json["tokens_per_second"] = row.tokens_per_second;
  json["seconds"] = row.seconds;
  json["skipped"] = row.skipped;
  json["outcome"] = outcome_name(row.outcome);
  if (row.communication_bytes > 0) json["communication_bytes"] = row.communication_bytes;
  if (!row.experts.empty()) json["experts"] = parse_json(row.experts);
  if (!row.preferences.empty()) json["preferences"] = parse_json(row.preferences.json);
  if (!row.validation_preferences.empty())
    json["validation_preferences"] = parse_json(row.validation_preferences.json);
  return json.dump();
}

std::string missing_steps(const std::vector<MetricRow>& rows, int64_t last) {
  std::string text;
  int64_t next = 1;  // the first step that may be missing
  const auto have = [&](int64_t step) {
    if (step > next) {
      text += (text.empty() ? "" : ", ") + std::to_string(next);
      if (step > next + 1) text += " to " + std::to_string(step - 1);
    }
    next = step + 1;
  };
  for (const MetricRow& row : rows)
    if (row.step >= next && row.step <= last) have(row.step);
  have(last + 1);
  return text;
}

void add_row(const MetricRow& row, std::vector<MetricRow>* rows) {
  while (!rows->empty() && rows->back().step >= row.step) rows->pop_back();
  rows->push_back(row);
}

std::vector<MetricRow> last_rows(const std::vector<MetricRow>& rows) {
  std::vector<MetricRow> last;
  for (const MetricRow& row : rows) add_row(row, &last);
  return last;
}

std::vector<MetricRow> rows_of(const std::string& text, int64_t last_step, std::string* lines) {
  std::vector<MetricRow> rows;
  std::vector<std::string> kept;  // the line of each row
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    MetricRow row;
    if (!from_json(line, &row) || row.step < 1 || row.step > last_step) continue;
    add_row(row, &rows);
    kept.resize(rows.size() - 1);
    kept.push_back(line);
  }
  if (lines != nullptr)
    for (const std::string& line : kept) *lines += line + "\n";
  return rows;
}

bool from_json(const std::string& line, MetricRow* row) {
  const auto json = parse_json_or_discard(line);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return false;
  row->step = json["step"].get<int64_t>();
  row->loss = number(json, "loss");
  row->validation_loss = number(json, "validation_loss");
  if (json.contains("validation_losses") && json["validation_losses"].is_object())
    for (const auto& [name, loss] : json["validation_losses"].items())
      row->validation_losses.emplace_back(name, number(json["validation_losses"], name.c_str()));
  row->ended_early = json.contains("ended_early") && json["ended_early"] == true;
  row->learning_rate = number(json, "learning_rate");
  row->grad_norm = number(json, "grad_norm");
  row->tokens = integer(json, "tokens");
  row->samples = integer(json, "samples");
  row->tokens_per_second = number(json, "tokens_per_second");
  row->seconds = number(json, "seconds");
  row->skipped = integer(json, "skipped");
  row->communication_bytes = integer(json, "communication_bytes");
  if (json.contains("experts")) row->experts = json["experts"].dump();
  if (json.contains("preferences")) row->preferences = preferences_of(json["preferences"]);
  if (json.contains("validation_preferences"))
    row->validation_preferences = preferences_of(json["validation_preferences"]);
  const std::string outcome = json.value("outcome", "");
  for (int32_t i = 0; i < static_cast<int32_t>(std::size(kOutcomes)); ++i) {
    if (outcome == kOutcomes[i]) row->outcome = i;
  }
  return true;
}

}  // namespace hawser::cli
