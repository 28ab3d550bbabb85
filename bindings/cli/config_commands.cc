// Implements the commands about configs: init, presets, schema, plan, prove, explain.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/suggestions.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Returns JSON text in which numbers have the digits that people need.
std::string value_text(const ordered_json& value) {
  return value.is_number_float() ? number_text(value.get<double>()) : value.dump();
}

/// Returns, for example, "integer, minimum 1, maximum 256, in tokens"; "" without limits.
std::string limits(const ordered_json& field) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (field.contains("type") && field["type"].is_string()) add(field["type"].get<std::string>());
  for (const char* key : {"minimum", "above", "maximum", "below"}) {
    if (field.contains(key) && !field[key].is_null()) add(std::string(key) + " " + value_text(field[key]));
  }
  if (field.contains("unit") && field["unit"].is_string()) add("in " + field["unit"].get<std::string>());
  return text;
}

void print_field(const ordered_json& field) {
  const auto text = [&](const char* key) {
    if (!field.contains(key) || field[key].is_null()) return std::string();
    return field[key].is_string() ? field[key].get<std::string>() : field[key].dump();
  };
  const bool has_value = field.contains("value") && !field["value"].is_null();
  output().print("%s = %s   (%s", text("pointer").c_str(),
                 has_value ? value_text(field["value"]).c_str() : "not set", text("origin").c_str());
  if (!text("rule").empty()) output().print(": %s", text("rule").c_str());
  output().print(")\n");
  if (!text("doc").empty()) output().print("    %s\n", text("doc").c_str());
  if (field.contains("default") && !field["default"].is_null()) {
    output().print("    default %s", value_text(field["default"]).c_str());
    if (!limits(field).empty()) output().print(", %s", limits(field).c_str());
    output().print("\n");
  } else if (!limits(field).empty()) {
    output().print("    %s\n", limits(field).c_str());
  }
}

/// Prints every field below `node`, whatever the nesting of arrays and objects around them.
void print_fields(const ordered_json& node) {
  if (node.is_object() && node.contains("pointer")) {
    print_field(node);
  } else if (node.is_structured()) {
    for (const auto& child : node) print_fields(child);
  }
}

/// Refuses a field name, because a pointer is needed.
[[noreturn]] void refuse_bare_field(const std::string& word) {
  const FieldSuggestion field = field_meant_by(word);
  if (field.pointer.empty())
    refuse("\"" + word + "\" is neither a file, a preset nor a field" +
           (field.advice.empty() ? "; `hawser explain` lists all fields" : "; " + field.advice));
  refuse("\"" + word + "\" is not a pointer to a field; did you mean: hawser explain " + field.pointer + "?" +
         (field.advice.empty() ? "" : " " + field.advice));
}

bool is_preset(const std::string& word) {
  const auto names = parse_json(text_of(hws_config_presets));
  return std::find(names.begin(), names.end(), word) != names.end();
}

}  // namespace

int run_presets() {
  for (const auto& name : parse_json(text_of(hws_config_presets))) {
    output().line(name.get<std::string>());
  }
  return kExitOk;
}

int run_schema() {
  output().line(text_of(hws_config_schema, HWS_FORMAT_JSON));
  return kExitOk;
}

int run_init(const std::string& preset, const std::string& file) {
  const Config config = make<Config>(hws_config_preset, preset.c_str());
  const std::string json = text_of(hws_config_serialize, config.get(), HWS_FORMAT_JSON);
  const std::string text = parse_json(json).dump(2) + "\n";
  if (file.empty()) {
    output().line(text);
    return kExitOk;
  }
  if (exists(file)) {
    throw Failure(HWS_ALREADY_EXISTS, file + " already exists; choose another name or remove it");
  }
  replace_file(file, text);
  output().print("wrote %s; train it with: hawser train %s --data FILE --out DIR\n", file.c_str(),
                 file.c_str());
  return kExitOk;
}

int run_plan(const ConfigOptions& options, const ClusterOptions& on, bool json) {
  if (on.cluster.empty() && on.tokens > 0) refuse("--tokens predicts a run on a cluster; add --cluster");
  if (on.cluster.empty() && on.imbalance > 1)
    refuse("--imbalance predicts a step on a cluster; add --cluster");
  if (on.cluster.empty() && on.search) refuse("--search looks for layouts on a cluster; add --cluster");
  if (!on.search && on.ranks > 0) refuse("--ranks is for a search; add --search");
  if (on.cluster.empty() && !on.trace.empty())
    refuse("--trace writes the predicted step on a cluster; add --cluster");
  if (on.search && !on.trace.empty())
    refuse(
        "--trace writes the step of one layout: remove --search, and set the fields of one layout with "
        "--set");
  const Config config = load_config(options);
  // The text of a file if there is one, otherwise the name of a cluster in the library.
  const std::string cluster = exists(on.cluster) ? read_file(on.cluster) : on.cluster;
  const Plan plan =
      cluster.empty() ? make<Plan>(hws_plan_create, config.get())
      : on.search ? make<Plan>(hws_plan_search, config.get(), cluster.c_str(), on.ranks, on.top, on.imbalance)
                  : make<Plan>(hws_plan_create_on, config.get(), cluster.c_str(), on.tokens, on.imbalance);
  if (!on.trace.empty()) {
    const bool image = std::string_view(on.trace).ends_with(".svg");
    replace_file(on.trace, text_of(hws_plan_trace, plan.get(), image ? HWS_FORMAT_SVG : HWS_FORMAT_JSON));
  }
  output().line(text_of(hws_plan_report, plan.get(), json ? HWS_FORMAT_JSON : HWS_FORMAT_TEXT));
  return kExitOk;
}

int run_prove(const ConfigOptions& options, int steps, bool json) {
  const Config config = load_config(options);
  const std::string text = text_of(hws_config_prove_layout, config.get(), steps);
  const ordered_json proof = parse_json(text);
  const bool equal = proof.at("equal").get<bool>();
  if (json) {
    output().line(text);
    return equal ? kExitOk : kExitRuntime;
  }
  for (const auto& change : proof.at("shrunk"))
    output().print("shrunk  %s from %s to %s\n", change.at("pointer").get<std::string>().c_str(),
                   change.at("from").dump().c_str(), change.at("to").dump().c_str());
  if (!proof.at("shrunk").empty()) output().line("what follows is proven of the config with these changes");
  output().print(
      "%d ranks, %d steps, %lld tensors with %lld elements compared with one rank that plays all, and with "
      "plain data parallelism\n",
      proof.at("ranks").get<int>(), steps, proof.at("tensors").get<long long>(),
      proof.at("elements").get<long long>());
  const auto& distance = proof.at("distance_to_f64");
  if (!distance.is_null())
    output().print(
        "relative distance of the first gradients from f64: %.1e; of the same sums in ascending and "
        "descending "
        "order: %.1e, %.1e\n",
        distance.at("ranks").get<double>(), distance.at("ascending").get<double>(),
        distance.at("descending").get<double>());
  ordered_json difference = proof.at("first_difference");
  for (const auto& [key, other] :
       {std::pair{"distance_to_one_rank", "one rank"}, {"distance_to_f64_model", "a model in f64"}}) {
    const ordered_json& margin = proof.at(key);
    if (margin.is_null()) continue;
    const ordered_json& of_allowed = margin.at("share_of_allowed");  // null if the share is not finite
    const double share = of_allowed.is_number() ? of_allowed.get<double>() : INFINITY;
    output().print("first gradients against %s: %s comes closest to its limit, with %.0f %% of it\n", other,
                   margin.at("tensor").get<std::string>().c_str(), 100 * share);
    if (difference.is_null() && !(share <= 1)) difference = {{key, margin}};
  }
  if (const ordered_json& choices = proof.at("choices_of_experts"); !choices.is_null()) {
    const ordered_json& margin = choices.at("least_margin");
    const long long moved = choices.at("moved").get<long long>();
    if (margin.is_number())
      output().print("choices of experts: the closest was made by %.1e of its score\n", margin.get<double>());
    if (moved > 0)
      output().print(
          "near ties: at least %lld choices of experts are others than one rank's, and gradients follow "
          "them. "
          "Rounding decides where scores are nearly equal; try another seed\n",
          moved);
  }
  if (equal) {
    output().line("equal: every loss, gradient, weight and moment has the same bits");
    std::string plain = "plain data parallelism gives these bits with";
    for (const auto& [pointer, value] : proof.at("same_bits").items())
      plain += " --set " + pointer + "=" + value.dump();
    output().line(plain);
  } else {
    output().print("DIFFERENT: %s\n", difference.dump().c_str());
  }
  return equal ? kExitOk : kExitRuntime;
}

void order_explain_words(std::string* config, std::string* pointer) {
  std::error_code ignored;
  if (pointer->empty() && config->starts_with('/') && !std::filesystem::exists(*config, ignored))
    std::swap(*config, *pointer);
}

int run_explain(const ConfigOptions& options, const std::string& pointer, bool json) {
  if (!pointer.empty() && pointer[0] != '/') refuse_bare_field(pointer);
  const std::string& name = options.config;
  const bool bare = !name.empty() && name.find_first_of("./") == std::string::npos && !exists(name);
  if (bare && !is_preset(name) && !field_meant_by(name).pointer.empty()) refuse_bare_field(name);
  Config config;
  if (options.config.empty()) {
    config = make<Config>(hws_config_parse, static_cast<const void*>("{}"), size_t{2}, HWS_FORMAT_JSON);
    apply_sets(config.get(), options.sets);
  } else {
    config = load_config(options);
  }
  const std::string text = text_of(hws_config_explain, config.get(), pointer.c_str());
  if (json) {
    output().line(text);
  } else {
    print_fields(parse_json(text));
  }
  return kExitOk;
}

}  // namespace hawser::cli
