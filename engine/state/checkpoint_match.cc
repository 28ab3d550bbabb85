#include "engine/state/checkpoint_match.h"

#include <fmt/format.h>

#include <optional>

#include "engine/assembly/precision.h"
#include "engine/base/error.h"
#include "engine/base/json_difference.h"
#include "engine/config/config_tree.h"
#include "engine/data/fingerprint.h"
#include "engine/optim/optimizer.h"
#include "engine/state/durable_state.h"

namespace hawser::train {
namespace {

/// Whether two models are compared to continue a training run, or only to take weights.
enum class Same { kTraining, kWeights };

/// The model of a checkpoint. An older version may have written it, so fields may be missing.
class StoredModel {
 public:
  explicit StoredModel(const Json& model) : model_(model) {}

  /// Returns the default that the other fields imply for a missing field; null if it has none.
  Json value_of_missing(const std::string& field) {
    try {
      if (!tree_) {
        Json fields = model_;
        fields.erase("adapter");
        tree_ = config::ConfigTree::from_json(Json{{"model", fields}}.dump());
      }
      return parse_json<Json>(config::explain(*tree_, "/model" + field)).at("value");
    } catch (const Error&) {  // a newer version wrote it, or it is an adapter's field
      return nullptr;
    }
  }

 private:
  const Json& model_;
  std::optional<config::ConfigTree> tree_;
};

/// Returns the model fields that differ or exist on one side only. Ignores dropout and, for weights alone,
/// the storage of an adapter's base.
std::string model_difference(const std::string& ours, const std::string& theirs, Same same) {
  Json a = parse_json<Json>(ours), b = parse_json<Json>(theirs);
  for (Json* const json : {&a, &b}) {
    json->erase("dropout");
    if (!json->contains("adapter")) continue;
    json->at("adapter").erase("dropout");
    if (same == Same::kWeights)
      json->at("adapter").erase("base");
    else
      json->at("adapter").emplace("base", "stored");  // older checkpoints lack the field
  }
  std::string text;
  StoredModel stored(b);
  each_difference(a, b, [&](const std::string& pointer, const Json* here, const Json* there) {
    if (here != nullptr && there == nullptr && stored.value_of_missing(pointer) == *here) return;
    text += fmt::format("\n  {}{}: {} here, {} in the checkpoint",
                        pointer.starts_with("/adapter") ? "" : "/model", pointer,
                        here ? here->dump() : "not known", there ? there->dump() : "null");
  });
  return text;
}

/// Resuming requires the stored data types to match. Loading weights alone accepts both types.
void check_tensor(const checkpoint::Reader& reader, const std::string& path, const std::string& name,
                  const nn::Parameter& p, std::optional<DType> kept) {
  const auto found = reader.tensors().find(name);
  if (found == reader.tensors().end())
    fail(Code::kCheckpointIncompatible,
         "checkpoint {} has no tensor \"{}\" (was it trained with another optimizer?)", path, name);
  const DType stored = found->second.dtype;
  if ((stored != DType::kF32 && stored != DType::kBf16) || found->second.shape != p.shape)
    fail(Code::kCheckpointIncompatible,
         "checkpoint {}: tensor \"{}\" does not have the model's shape in f32 or bf16", path, name);
  if (kept && stored != *kept)
    fail(Code::kCheckpointIncompatible,
         "checkpoint {} has \"{}\" as {}, but this engine keeps its state as {} (/precision bf16_pure keeps "
         "bf16, the others f32): to resume exactly, use the precision that it was trained with; to use "
         "another, start a new run from its weights (/init/from), which {}",
         path, name, dtype_name(stored), dtype_name(*kept),
         stored == DType::kF32 ? "rounds them to the nearest bf16" : "widens them, exactly");
}

/// Refuses tensors that this engine does not keep, such as moments of another optimizer, because its next
/// save would lose them.
void check_nothing_more(const checkpoint::Reader& reader, const std::string& path,
                        const nn::ParameterTable& table, const optim::StatesByKind& kept) {
  const auto prefix_size = [](size_t i) { return std::string_view(plan::kStates[i].prefix).size(); };
  const auto is_kept = [&](const std::string& parameter, size_t i) {
    const nn::Parameter* const p = table.find(parameter);
    return p != nullptr && optim::states_of(kept, table.group_of(*p))[i];
  };
  for (const auto& [name, entry] : reader.tensors()) {
    for (size_t i = 0; i < plan::kStateCount; ++i)
      if (name.starts_with(plan::kStates[i].prefix) && !is_kept(name.substr(prefix_size(i)), i))
        fail(Code::kCheckpointIncompatible,
             "checkpoint {} has \"{}\", which this engine's optimizer does not keep; give the optimizer that "
             "it was trained with (/optimizer), or start a new run from its weights (/init/from)",
             path, name);
    if (!name.starts_with("optimizer.") && table.find(name) == nullptr)
      fail(Code::kCheckpointIncompatible,
           "checkpoint {} has the tensor \"{}\", which this engine's model does not have; it was written by "
           "another version, and would be lost at the next save",
           path, name);
  }
}

/// The names of the kinds of optimizer in a checkpoint's config. Another version may have written the config,
/// so this version need not have these kinds.
class StoredKinds {
 public:
  explicit StoredKinds(const std::string& config_json) : config_(parse_json<Json>(config_json)) {
    Json preset = Json::object();
    if (config_.contains("preset") && config_["preset"].is_string()) preset["preset"] = config_["preset"];
    const config::ConfigTree tree = config::ConfigTree::from_json(preset.dump());
    otherwise_ = text("/optimizer/kind");
    if (otherwise_.empty())
      otherwise_ = parse_json<Json>(config::explain(tree, "/optimizer/kind")).at("value").get<std::string>();
  }

  /// Returns the kind for a parameter, from /optimizer/rules and /optimizer/kind.
  std::string of(const nn::Parameter& p) const;

 private:
  /// Returns "" if the config does not set the key.
  std::string text(const std::string& pointer) const {
    const Json::json_pointer key(pointer);
    return config_.contains(key) && config_.at(key).is_string() ? config_.at(key).get<std::string>() : "";
  }

  /// Returns the kind of a parameter to which no rule gives one: the section's, but Muon only of matrices
  /// (optim::trained_parts).
  std::string of_section(const nn::Parameter& p) const {
    const bool other = otherwise_ == optim::kMuon.name && !nn::is_block_matrix(p);
    return other ? optim::kAdamW.name : otherwise_;
  }

  const Json config_;
  std::string otherwise_;
};

std::string StoredKinds::of(const nn::Parameter& p) const {
  const Json::json_pointer rules("/optimizer/rules");
  const size_t count = config_.contains(rules) ? config_.at(rules).size() : 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string rule = fmt::format("/optimizer/rules/{}", i);
    if (!nn::is_named_by(p, text(rule + "/of"))) continue;
    const std::string kind = text(rule + "/kind");
    return kind.empty() ? of_section(p) : kind;
  }
  return of_section(p);
}

/// Refuses arrays of another kind of optimizer, which have the names and shapes of this engine's but another
/// meaning.
void check_optimizers(const checkpoint::Reader& reader, const std::string& path, const Ranks& ranks,
                      const optim::StatesByKind& kept) {
  const StoredKinds theirs(reader.description().config_json);
  const nn::ParameterTable& table = ranks.table();
  for (const nn::Parameter& p : table.all()) {
    const nn::ParameterGroup& group = table.group_of(p);
    if (!p.trainable || optim::states_of(kept, group) == optim::StateTypes()) continue;
    const std::string here = optim::rule_of(optim::kind_of(group)).name;
    if (theirs.of(p) != here)
      fail(Code::kCheckpointIncompatible,
           "checkpoint {} has the state of optimizer \"{}\" for \"{}\", but this engine's optimizer is "
           "\"{}\"; "
           "give the optimizer that it was trained with (/optimizer/kind, /optimizer/rules), or start a new "
           "run from its weights (/init/from)",
           path, theirs.of(p), p.name, here);
  }
}

}  // namespace

namespace {

/// Removes the keys in which a language model differs from a score model that starts with its blocks.
std::string without_head(const std::string& model) {
  Json json = parse_json<Json>(model);
  for (const char* key : {"head", "tied_head", "logit_softcap"}) json.erase(key);
  return json.dump();
}

void require_equal(const std::string& path, const std::string& ours, const std::string& theirs, Same same) {
  const std::string difference = model_difference(ours, theirs, same);
  if (!difference.empty())
    fail(Code::kCheckpointIncompatible, "checkpoint {} belongs to another model:{}", path, difference);
}

}  // namespace

void require_same_model(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours) {
  require_equal(path, ours.stored_model_json(), reader.description().model_json, Same::kTraining);
}

void require_same_base_model(const checkpoint::Reader& reader, const std::string& path,
                             const Assembly& ours) {
  const std::string& theirs = reader.description().model_json;
  const bool adapter = parse_json<Json>(theirs).contains("adapter");
  const std::string here = adapter ? ours.stored_model_json() : ours.model_json;
  ours.new_head ? require_equal(path, without_head(here), without_head(theirs), Same::kWeights)
                : require_equal(path, here, theirs, Same::kWeights);
}

void require_same_vocabulary(const checkpoint::Reader& reader, const std::string& path,
                             const Assembly& ours) {
  const auto theirs = data::Vocabulary::from_json(reader.description().vocabulary_json);
  if (theirs.to_json() != ours.vocabulary.to_json())
    fail(Code::kCheckpointIncompatible, "checkpoint {} has another vocabulary than this engine", path);
}

void require_same_tokenizer(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours) {
  const std::string theirs = text::tokenizer_digest(reader.description().extra_files);
  if (ours.tokens && theirs != ours.tokens->digest())
    fail(Code::kCheckpointIncompatible,
         "checkpoint {} was trained with another tokenizer ({} there, {} here). Give the model or the data "
         "that it started with, or start a new run from its weights (/init/from)",
         path, theirs.empty() ? "none" : theirs, ours.tokens->digest());
}

void require_same_data(const checkpoint::Reader& reader, const std::string& path, const std::string& ours) {
  const std::string& theirs = reader.description().data_json;
  const std::string difference = theirs == "{}" ? "" : data::data_difference(theirs, ours);
  if (!difference.empty())
    fail(Code::kCheckpointIncompatible,
         "checkpoint {} was trained on other data:{}\nGive the same data, or allow other data "
         "(HWS_LOAD_OTHER_DATA; hawser train --other-data)",
         path, difference);
}

void require_weights(const checkpoint::Reader& reader, const std::string& path, const Ranks& ranks) {
  for (const nn::Parameter& p : ranks.table().all())
    if (!may_lack(reader, p)) check_tensor(reader, path, p.name, p, {});
  if (!ranks.table().adapter().on()) return;
  for (const auto& [name, entry] : reader.tensors())
    if (name.find(".adapter_") != name.npos && !name.starts_with("optimizer.") &&
        ranks.table().find(name) == nullptr)
      fail(Code::kCheckpointIncompatible,
           "checkpoint {} has \"{}\", which this config's adapter does not have (/adapter/targets)", path,
           name);
}

void require_averages(const checkpoint::Reader& reader, const std::string& path) {
  const std::string_view prefix = plan::kStates[plan::kAverageOfWeights].prefix;
  for (const auto& [name, entry] : reader.tensors())
    if (name.starts_with(prefix)) return;
  fail(Code::kCheckpointIncompatible,
       "checkpoint {} has no average of its weights; train with /optimizer/average to keep one, or take the "
       "weights themselves (without /init/average, --average)",
       path);
}

void require_state(const checkpoint::Reader& reader, const std::string& path, const Ranks& ranks) {
  const DType kept = state_type(ranks.config());
  const optim::StatesByKind states = optim::states_by_kind(ranks.config().optimizer, kept);
  const bool elsewhere = base_is_elsewhere(ranks.config());
  if (elsewhere != (reader.description().base_json != "{}"))
    fail(Code::kCheckpointIncompatible,
         "checkpoint {} {} its adapter's base weights, but checkpoints of this run {}; to continue, start a "
         "new run from it (/init/from)",
         path, elsewhere ? "has" : "leaves out", elsewhere ? "leave them out" : "have them");
  for (const nn::Parameter& p : ranks.table().all()) {
    if (elsewhere && p.in_base()) continue;
    check_tensor(reader, path, p.name, p, p.read == nn::Read::kExact ? DType::kF32 : kept);
    const optim::StateTypes& of_p = optim::states_of(states, ranks.table().group_of(p));
    for (size_t i = 0; i < plan::kStateCount; ++i) {
      const std::string name = plan::kStates[i].prefix + p.name;
      const bool may_begin = i == plan::kAverageOfWeights && reader.tensors().count(name) == 0;
      if (of_p[i] && p.trainable && !may_begin)
        check_tensor(reader, path, name, p, optim::saved_type(*of_p[i]));
    }
  }
  check_nothing_more(reader, path, ranks.table(), states);
  check_optimizers(reader, path, ranks, states);
}

}  // namespace hawser::train
