// Head fields: read and write the class of Transformers that config.json names, which determines the head of
// a model, and the labels of a score.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/base/json.h"
#include "engine/checkpoint/hf/config_fields.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_config.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr std::string_view kScoreClass = "ForSequenceClassification";

/// Returns the number of labels. Transformers omits id2label for two labels.
int64_t labels_of(ConfigFields* fields) {
  if (fields->has("id2label") && !fields->is_null("id2label"))
    return static_cast<int64_t>(fields->object("id2label").keys().size());
  return fields->integer("num_labels", 2, 0);
}

Json parsed(const std::map<std::string, std::string>& files, const char* name) {
  const auto found = files.find(name);
  return found == files.end() ? Json() : parse_json_or_discard<Json>(found->second);
}

/// Returns the text of a special token, which may be an object with its settings.
std::string special_token(const Json& settings, const char* name) {
  const Json token = settings.is_object() && settings.contains(name) ? settings[name] : Json();
  if (token.is_object()) return token.value("content", std::string());
  return token.is_string() ? token.get<std::string>() : "";
}

/// Returns the id of a special token that tokenizer_config.json names; null if tokenizer.json does not list
/// it.
Json special_token_id(const std::map<std::string, std::string>& files, const char* name) {
  const std::string content = special_token(parsed(files, "tokenizer_config.json"), name);
  const Json tokenizer = parsed(files, "tokenizer.json");
  if (content.empty() || !tokenizer.is_object() || !tokenizer.contains("added_tokens")) return nullptr;
  for (const Json& token : tokenizer["added_tokens"])
    if (token.is_object() && token.contains("id") && token.value("content", Json()) == content)
      return token["id"];
  return nullptr;
}

/// Returns the ids of the tokens that, according to the model's files, end a text or a turn of a chat.
std::vector<Json> end_tokens(const Json& config, const std::map<std::string, std::string>& files) {
  std::vector<Json> ids;
  for (const Json& from : {config, parsed(files, "generation_config.json")}) {
    const Json named = from.is_object() ? from.value("eos_token_id", Json()) : Json();
    if (named.is_number_integer()) ids.push_back(named);
    if (named.is_array()) ids.insert(ids.end(), named.begin(), named.end());
  }
  if (const Json id = special_token_id(files, "eos_token"); !id.is_null()) ids.push_back(id);
  return ids;
}

}  // namespace

std::string architecture(std::string_view family, nn::HeadKind head) {
  const std::string prefix(family_row(family).class_prefix);
  if (head == nn::HeadKind::kScore)
    return prefix + (family == "gemma3_text" ? "Text" : "") + std::string(kScoreClass);
  return prefix + (family == "gpt2" ? "LMHeadModel" : "ForCausalLM");
}

std::string head_obstacle(std::string_view family, const nn::ModelConfig& model) {
  return model.has_score() && !has_score_class(family) ? "it has no class with a score head" : "";
}

void read_head(ConfigFields* fields, nn::ModelConfig* model) {
  bool score = false;
  if (fields->has("architectures") && !fields->is_null("architectures"))
    for (const std::string& name : fields->texts("architectures"))
      score = score || name.ends_with(kScoreClass);
  if (!score) return;
  if (const int64_t labels = labels_of(fields); labels != 1)
    fields->problem(fields->has("id2label") ? "id2label" : "num_labels",
                    fmt::format("means {} labels; {} is supported only with one label, as a reward model",
                                labels, kScoreClass));
  model->head = nn::HeadKind::kScore;
  model->tied_head = false;  // Transformers keeps the key, but such a class does not read it
  model->logit_softcap = 0;
}

std::string with_padding_token(const std::string& config_json_text,
                               const std::map<std::string, std::string>& files) {
  Json json = parse_json<Json>(config_json_text);
  const std::vector<Json> ends = end_tokens(json, files);
  const auto ends_texts = [&](const Json& id) {
    return std::find(ends.begin(), ends.end(), id) != ends.end();
  };
  const Json was = json["pad_token_id"];
  if (ends_texts(was)) json["pad_token_id"] = nullptr;
  const Json own = special_token_id(files, "pad_token");
  if (json["pad_token_id"].is_null() && !own.is_null() && !ends_texts(own)) json["pad_token_id"] = own;
  return json["pad_token_id"] == was ? config_json_text : json.dump(2) + "\n";
}

bool padding_ends_texts(const std::string& config_json_text,
                        const std::map<std::string, std::string>& files) {
  const Json json = parse_json<Json>(config_json_text), padding = json.value("pad_token_id", Json());
  const std::vector<Json> ends = end_tokens(json, files);
  return !padding.is_null() && std::find(ends.begin(), ends.end(), padding) != ends.end();
}

std::map<std::string, std::string> head_keys(std::string_view family, const nn::ModelConfig& model,
                                             const std::string& original) {
  std::map<std::string, std::string> keys = {
      {"architectures", Json::array({architecture(family, model.head)}).dump()}};
  if (!model.has_score()) return keys;
  const Json was = original.empty() ? Json() : parse_json<Json>(original);
  if (was.contains("architectures") && was["architectures"] == parse_json<Json>(keys["architectures"]))
    return keys;
  keys["id2label"] = Json::object({{"0", "LABEL_0"}}).dump();
  keys["label2id"] = Json::object({{"LABEL_0", 0}}).dump();
  for (const char* key : {"num_labels", "_num_labels", "problem_type", "finetuning_task"}) keys[key] = "";
  return keys;
}

}  // namespace hawser::checkpoint::hf
