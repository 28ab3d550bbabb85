// Config cases: small config.json texts of each family, and the model that each describes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::checkpoint::hf {

using Json = nlohmann::json;

inline Json model_of(const Json& config, const std::vector<std::string>& ignore = {}) {
  return Json::parse(model_json(config.dump(), ignore)).at("model");
}

inline Json small(const char* family) {
  if (std::string(family) == "gpt2")
    return {{"model_type", family}, {"n_embd", 24},      {"n_head", 4},
            {"n_layer", 2},         {"n_positions", 32}, {"vocab_size", 50}};
  return {{"model_type", family},     {"hidden_size", 24},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"num_hidden_layers", 4},   {"intermediate_size", 40},
          {"vocab_size", 50},         {"max_position_embeddings", 64}};
}

inline Json with(Json base, const Json& changes) {
  base.update(changes);
  return base;
}

}  // namespace hawser::checkpoint::hf
