// Config resolution: implements validate, resolve and resolved_json.
#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/config/decode.h"
#include "engine/config/effective.h"
#include "engine/config/model_fields.h"
#include "engine/config/problems.h"
#include "engine/config/rules.h"
#include "engine/config/rules_adapter.h"
#include "engine/config/rules_ramp.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

/// Returns all problems. Problems of derived values come last, because most of them follow from an error in
/// what the user wrote.
std::vector<Problem> all_problems(const Effective& effective, bool complete) {
  std::vector<Problem> problems = effective.problems();
  for (Problem& problem : check_rules(effective, complete)) problems.push_back(std::move(problem));
  for (const Problem& problem : effective.derived_problems()) problems.push_back(problem);
  if (!complete || !problems.empty()) return problems;
  nn::ModelConfig model = decode_model(effective);
  model.adapter = decode_adapter(effective, model);
  check_adapter(model, effective.integer("/mesh/tp"), &problems);
  return problems;
}

/// Returns all problems of the tree, or if there is none, those of the sizes of its batch ramp.
std::vector<Problem> problems_of(const Value& raw, const Effective& effective, bool complete) {
  std::vector<Problem> problems = all_problems(effective, complete);
  if (!problems.empty()) return problems;
  for (const OneSize& size : sizes_of_ramp(raw, effective))
    for (const Problem& problem : all_problems(size.config, complete))
      problems.push_back(problem_of_size(size, problem));
  return problems;
}

/// Returns the value with the schema's defaults filled in.
Value with_defaults(const Effective& config, const Value& value, const FieldView& field,
                    const std::string& pointer) {
  if (field.kind == FieldKind::kTable) {
    Value table = Value::table(field.table->fields.size());
    for (const FieldView& child : field.table->fields) {
      const size_t id = static_cast<size_t>(child.id);
      const Value* slot = value.is_set() ? &value.fields[id] : &table.fields[id];
      table.fields[id] = with_defaults(config, *slot, child, pointer + "/" + child.name);
    }
    return table;
  }
  // These fields are reset to their defaults: the preset, because its name may change meaning; data.path,
  // which is one of the sources; epochs, which train.steps replaces; and fields without effect (such as 0
  // experts), because they must not look deliberate.
  if (pointer == "/preset" || pointer == "/data/path" || pointer == "/train/epochs" ||
      pointer == "/train/epoch_samples" || !has_effect(config, pointer) ||
      (pointer == "/model/moe/experts" && config.integer(pointer) == 0))
    return field.default_value;
  // Configs from before this key describe language models, so a language model is written without the key.
  if (pointer == "/model/head" && config.is(pointer, "language")) return Value();
  if (!value.is_set()) return field.default_value;
  if (field.kind != FieldKind::kArray) return value;
  Value array = value;
  for (size_t i = 0; i < array.items.size(); ++i) {
    array.items[i] = with_defaults(config, value.items[i], *field.element, fmt::format("{}/{}", pointer, i));
  }
  return array;
}

}  // namespace

std::vector<Problem> validate(const ConfigTree& tree) {
  const Effective effective(tree.impl().root);
  return problems_of(tree.impl().root, effective, !effective.is_given("/init/from"));
}

ResolvedConfig resolve(const ConfigTree& tree) {
  const Effective effective(tree.impl().root);
  std::vector<Problem> problems = problems_of(tree.impl().root, effective, true);
  if (effective.is("/data/vocabulary", "characters") && !effective.has("/model/vocab_size") &&
      effective.count("/data/sources") == 0 && problems.empty()) {
    problems.push_back({"/data/path", "is missing: the vocabulary is the characters of the data",
                        "give the path of a text file, or model.vocab_size"});
  }
  throw_if_any(problems);
  return decode(effective);
}

std::optional<ResolvedConfig> resolve_with(ConfigTree tree, const std::vector<Setting>& settings) {
  try {
    for (const Setting& s : settings) tree.set(s.pointer, s.value);
    const Effective effective(tree.impl().root);
    for (const Dependence& row : dependences())
      if (!has_effect(effective, row.pointer)) *make_slot(&tree.impl().root, row.pointer) = Value();
    return resolve(tree);
  } catch (const Error& error) {
    if (error.code() != Code::kConfigInvalid) throw;
    return std::nullopt;
  }
}

std::vector<Setting> zero_settings(const ResolvedConfig& config, int64_t stage,
                                   parallel::ReducePolicy reduce) {
  std::vector<Setting> settings = {{"/zero/stage", std::to_string(stage)},
                                   {"/zero/reduce", name_at("/zero/reduce", reduce)}};
  if (config.mesh.dp_shard > 1) return settings;
  settings.push_back({"/mesh/dp_shard", std::to_string(config.mesh.dp())});
  settings.push_back({"/mesh/dp_replicate", "1"});
  return settings;
}

std::string resolved_json(const ConfigTree& tree) {
  const Effective effective(tree.impl().root);
  return write_json(with_defaults(effective, effective.root(), schema_field(), ""), schema_field(), 2);
}

}  // namespace hawser::config
