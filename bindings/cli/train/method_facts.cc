// Describes adapter and objective of a run.
#include "bindings/cli/train/method_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/cli/quantity.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTrained = "trained";
constexpr const char* kAdapter = "adapter";
constexpr const char* kObjective = "objective";
constexpr const char* kTeacher = "teacher";

std::string field_text(const ordered_json& section, const char* key) {
  return number_text(section.at(key).get<double>());
}

/// ", beta 0.1"; nothing if the section lacks the key.
std::string part(const ordered_json& section, const char* key, const char* name) {
  return section.contains(key) ? ", " + std::string(name) + " " + field_text(section, key) : std::string();
}

std::string modules_text(const ordered_json& adapter) {
  if (!adapter.contains("targets") || adapter["targets"].empty()) return "all linears of the blocks";
  std::string names;
  for (const ordered_json& name : adapter["targets"])
    names += (names.empty() ? "" : ", ") + name.get<std::string>();
  return names;
}

/// "LoRA of rank 16, alpha 32, on attention.q, mlp.*"
std::string adapter_text(const ordered_json& adapter) {
  const auto is = [&](const char* key) { return adapter.value(key, false); };
  const bool quantised = adapter.value("base", "") == "nf4";
  std::string text = is("dora") ? "DoRA" : "LoRA";
  if (quantised) text = "Q" + text;
  text += " of rank " + field_text(adapter, "rank") + part(adapter, "alpha", "alpha");
  if (is("rslora")) text += " (rsLoRA)";
  for (const auto& [list, value] : {std::pair("ranks", "rank"), std::pair("alphas", "alpha")})
    for (const ordered_json& entry : adapter.value(list, ordered_json::array()))
      text += ", " + std::string(value) + " " + field_text(entry, value) + " for " +
              entry.at("of").get<std::string>();
  text += ", on " + modules_text(adapter);
  std::string also;
  for (const ordered_json& name : adapter.value("train", ordered_json::array()))
    also += (also.empty() ? "; also trained: " : ", ") + name.get<std::string>();
  text += also;
  if (const auto dropout = adapter.value("dropout", 0.0); dropout > 0)
    text += part(adapter, "dropout", "dropout");
  if (quantised) text += ", on a base in NF4";
  if (adapter.contains("from")) text += ", from " + adapter["from"].get<std::string>();
  return text;
}

/// "dpo, beta 0.1; reference: the model at the start of training"
std::string objective_text(const ordered_json& objective, const std::string& kind) {
  std::string text = kind + part(objective, "beta", "beta");
  if (kind == "simpo") text += part(objective, "gamma", "gamma");
  if (kind == "dpo_sft") text += part(objective, "sft_weight", "sft_weight");
  if (objective.value("label_smoothing", 0.0) > 0)
    text += part(objective, "label_smoothing", "label smoothing");
  if (kind == "simpo" || kind == "orpo" || kind == "reward") return text;
  const std::string folder = objective.value("reference", "");
  return text + "; reference: " + (folder.empty() ? "the model at the start of training" : folder);
}

/// "big: 64 ids per target, weight 1, temperature 1"
std::string teacher_text(const ordered_json& teacher) {
  const std::string from = teacher.value("from", "");
  return (from.empty() ? "" : from + ": ") + std::to_string(teacher.at("top").get<int64_t>()) +
         " ids per target" + part(teacher, "weight", "weight") + part(teacher, "temperature", "temperature");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> method_facts(const ordered_json& resolved,
                                                              const ordered_json& info) {
  std::vector<std::pair<std::string, std::string>> rows;
  const double all = info.at("parameters"), trained = info.at("trainable_parameters");
  if (trained < all)
    rows.emplace_back(kTrained, count_text(trained) + " of " + count_text(all) +
                                    format_text(" parameters (%.3g%%)", 100 * trained / all));
  if (resolved.contains("adapter") && resolved["adapter"].value("rank", 0) > 0)
    rows.emplace_back(kAdapter, adapter_text(resolved["adapter"]));
  if (resolved.contains("teacher") && resolved["teacher"].value("top", 0) > 0)
    rows.emplace_back(kTeacher, teacher_text(resolved["teacher"]));
  if (!resolved.contains("objective")) return rows;
  if (const std::string kind = resolved["objective"].at("kind"); kind != "cross_entropy")
    rows.emplace_back(kObjective, objective_text(resolved["objective"], kind));
  return rows;
}

std::vector<std::pair<std::string, std::string>> kept_facts(const ordered_json& data) {
  std::vector<std::pair<std::string, std::string>> rows;
  const auto add = [&](const char* key, const char* label, const char* counted, const char* of) {
    if (!data.contains(key)) return;
    const ordered_json& made = data.at(key);
    const std::string how = made.at("read")
                                ? "read from the run"
                                : format_text("computed in %.1f s", made.at("seconds").get<double>());
    rows.emplace_back(label, count_text(made.at(counted).get<double>()) + of + how);
  };
  add("references", "reference", "rows", " log-probabilities, ");
  add("teacher", "teacher's ids", "targets", " targets, ");
  return rows;
}

bool is_method_fact(const std::string& label) {
  return label == kTrained || label == kAdapter || label == kTeacher || label == kObjective;
}

}  // namespace hawser::cli
