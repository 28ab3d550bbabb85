// Implements `hawser plan --published`: published training runs, each with the step that is predicted for it.
#include <algorithm>
#include <cmath>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/published/row.h"
#include "bindings/cli/published/tables.h"
#include "bindings/cli/quantity.h"

namespace hawser::cli {
namespace published {
namespace {

using nlohmann::ordered_json;

/// A row with its prediction.
struct Predicted {
  double seconds = 0, value = 0, error = 0;  ///< error: relative, above 0 if more is predicted
};

Predicted predict(const Row& row, const ordered_json& stack) {
  ordered_json cluster = stack;
  cluster.merge_patch(row.stack_changes());
  const std::string json = row.config().dump(), devices = cluster.dump();
  const Config config =
      make<Config>(hws_config_parse, static_cast<const void*>(json.data()), json.size(), HWS_FORMAT_JSON);
  const Plan plan = make<Plan>(hws_plan_create_on, config.get(), devices.c_str(), 0.0, 1.0);
  const ordered_json report = parse_json(text_of(hws_plan_report, plan.get(), HWS_FORMAT_JSON));
  Predicted predicted;
  predicted.seconds = report.at("foretold").at("seconds");
  predicted.value = row.in_unit(predicted.seconds, report.at("parameters"));
  predicted.error = predicted.value / row.reported() - 1;
  return predicted;
}

const char* use_name(Use use) {
  return use == Use::kFit ? "fit" : use == Use::kHeldBack ? "held back" : "not enough stated";
}

ordered_json table_json(const Table& table) {
  ordered_json json = {{"name", table.json.at("name")},
                       {"source", table.json.at("source")},
                       {"assumptions", table.json.at("assumptions")}};
  if (table.json.contains("flops")) json["flops"] = table.json["flops"].value("text", "");
  if (!table.stack.is_null()) json["not_hawser"] = table.stack.at("stack").at("name");
  double sum = 0, worst = 0;
  int held_back = 0;
  json["rows"] = ordered_json::array();
  for (const ordered_json& one : table.json.at("rows")) {
    const Row row(table.json, one);
    json["rows"].push_back({{"name", row.name()},
                            {"gpus", row.gpus()},
                            {"use", use_name(row.use())},
                            {"unit", row.unit()},
                            {"reported", row.reported()}});
    if (row.use() == Use::kNotEnough) continue;
    const Predicted predicted = predict(row, table.stack);
    json["rows"].back().update(ordered_json{
        {"foretold", predicted.value}, {"error", predicted.error}, {"seconds", predicted.seconds}});
    if (row.use() != Use::kHeldBack) continue;
    ++held_back, sum += std::abs(predicted.error), worst = std::max(worst, std::abs(predicted.error));
  }
  if (held_back > 0)
    json["held_back"] = {{"rows", held_back}, {"mean_error", sum / held_back}, {"worst_error", worst}};
  return json;
}

void print_table(const ordered_json& table) {
  output().line(table.at("name").get<std::string>());
  output().line("source: " + table.at("source").get<std::string>());
  if (table.contains("flops")) output().line("FLOPs of a step: " + table["flops"].get<std::string>());
  for (const auto& assumption : table.at("assumptions"))
    output().line("assumed: " + assumption.get<std::string>());
  if (table.contains("not_hawser"))
    output().line("not Hawser: predicted from Hawser's plan with the costs of " +
                  table["not_hawser"].get<std::string>());
  output().print("%-28s %7s %-18s %10s %10s %8s\n", "row", "GPUs", "use", "reported", "foretold", "error");
  for (const ordered_json& row : table.at("rows")) {
    const bool predicted = row.contains("foretold");
    output().print("%-28s %7lld %-18s %10.4g %10s %8s %s\n", row["name"].get<std::string>().c_str(),
                   row["gpus"].get<long long>(), row["use"].get<std::string>().c_str(),
                   row["reported"].get<double>(),
                   predicted ? format_text("%.4g", row["foretold"].get<double>()).c_str() : "-",
                   predicted ? format_text("%+.1f %%", 100 * row["error"].get<double>()).c_str() : "-",
                   row["unit"].get<std::string>().c_str());
  }
  if (table.contains("held_back"))
    output().print("held back: %s, error %.1f %% in the mean, %.1f %% at worst\n",
                   counted(table["held_back"]["rows"], "row").c_str(),
                   100 * table["held_back"]["mean_error"].get<double>(),
                   100 * table["held_back"]["worst_error"].get<double>());
  output().line("");
}

}  // namespace
}  // namespace published

int run_published(const std::string& path, bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const published::Table& table : published::tables(path)) {
    const nlohmann::ordered_json one = published::table_json(table);
    if (!json) published::print_table(one), output().flush();
    all.push_back(one);
  }
  if (json) output().line(nlohmann::ordered_json{{"tables", all}}.dump());
  return kExitOk;
}

}  // namespace hawser::cli
