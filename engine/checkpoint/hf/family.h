// Which Hugging Face family can express a model, and how its config.json is written.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/nn/model_config.h"

namespace hawser::checkpoint::hf {

/// "" if the family can express the model, else the first feature it lacks.
std::string obstacle(std::string_view family, const nn::ModelConfig& model);

/// The family's class in Transformers, such as "LlamaForCausalLM" or "LlamaForSequenceClassification".
std::string architecture(std::string_view family, nn::HeadKind head);

/// What each family lacks for the model, for messages.
std::string obstacles(const nn::ModelConfig& model);

/// config.json for a model: the keys of Transformers 4 and 5. `original`: the config.json text it was
/// imported with, whose keys without effect are kept ("" if none). dtype: "float32", "bfloat16", "float16".
std::string make_config(std::string_view family, const nn::ModelConfig& model, const std::string& dtype,
                        const std::string& original);

/// The text with the tokenizer's padding token, if it has none: a class that gives a score finds the ends of rows by it.
std::string with_padding_token(const std::string& config_json_text,
                               const std::map<std::string, std::string>& files);

/// The text with its dtype keys set to `dtype`.
std::string with_dtype(const std::string& config_json_text, const std::string& dtype);

}  // namespace hawser::checkpoint::hf
