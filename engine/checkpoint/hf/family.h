// Family choice: determines which Hugging Face family can express a model, and writes its config.json.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/checkpoint/hf/hf_config.h"
#include "engine/nn/model_config.h"

namespace hawser::checkpoint::hf {

/// Returns "" if the family can express the model, else the first feature that the family lacks.
std::string obstacle(std::string_view family, const nn::ModelConfig& model);

/// Reads the imported config.json among the files of an export; nothing if there is none, or if its family
/// cannot express the model any more.
std::optional<HfConfig> imported_config(const std::map<std::string, std::string>& files,
                                        const nn::ModelConfig& model);

/// Returns the family's class in Transformers, such as "LlamaForCausalLM" or
/// "LlamaForSequenceClassification".
std::string architecture(std::string_view family, nn::HeadKind head);

/// Lists for messages which feature of the model each family lacks.
std::string obstacles(const nn::ModelConfig& model);

/// Returns config.json for a model, with the keys of Transformers 4 and 5. `original`: the imported
/// config.json text, whose keys without effect are kept ("" if none). dtype: "float32", "bfloat16",
/// "float16".
std::string make_config(std::string_view family, const nn::ModelConfig& model, const std::string& dtype,
                        const std::string& original);

/// Returns the config.json of a score model with a padding token that ends no text. Transformers reads the
/// score at the last token that is not the padding token, and Hawser at the last token. A padding token that
/// also ends texts is replaced by the tokenizer's padding token, or by null if the tokenizer's padding token
/// ends texts too. With null, Transformers takes one row at a time. `files`: tokenizer_config.json,
/// tokenizer.json and generation_config.json, as far as they exist.
std::string with_padding_token(const std::string& config_json_text,
                               const std::map<std::string, std::string>& files);

/// True if pad_token_id of a config.json also ends texts according to the model's files.
bool padding_ends_texts(const std::string& config_json_text, const std::map<std::string, std::string>& files);

/// Returns the text with its dtype keys set to `dtype`.
std::string with_dtype(const std::string& config_json_text, const std::string& dtype);

}  // namespace hawser::checkpoint::hf
