// Folder cases: a Hugging Face folder with random weights, written as Transformers would, and the expected
// import.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/number_format.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint::hf {

using Json = nlohmann::json;

struct Stored {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

struct Style {
  std::string dtype = "F32";
  bool prefixed = true;
  int shards = 1;
  ExpertStyle experts = {};
};

inline Json config_of(const std::string& family) {
  Json json = {{"model_type", family},
               {"hidden_size", 24},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"num_hidden_layers", 2},
               {"intermediate_size", 20},
               {"vocab_size", 30},
               {"max_position_embeddings", 16},
               {"head_dim", 8}};
  if (family == "gpt2")
    json = {{"model_type", family}, {"n_embd", 24},      {"n_head", 4},
            {"n_layer", 2},         {"n_positions", 16}, {"vocab_size", 30}};
  json["architectures"] = {"Some"};
  json["torch_dtype"] = "float32";
  if (family == "mixtral") json["num_local_experts"] = 4;
  if (family == "qwen2_moe" || family == "qwen3_moe")
    json.update({{"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 12},
                 {"mlp_only_layers", {0}}});
  if (family == "qwen2_moe") json["shared_expert_intermediate_size"] = 10;
  if (family == "dots1")
    json.update({{"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 12},
                 {"n_group", 2},
                 {"n_shared_experts", 2},
                 {"first_k_dense_replace", 1},
                 {"routed_scaling_factor", 1.5}});
  if (family == "deepseek_v3")
    json.update({{"num_key_value_heads", 4},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 12},
                 {"n_group", 2},
                 {"topk_group", 1},
                 {"first_k_dense_replace", 1},
                 {"attention_bias", true},
                 {"kv_lora_rank", 10},
                 {"q_lora_rank", 6},
                 {"qk_rope_head_dim", 4},
                 {"qk_nope_head_dim", 6},
                 {"v_head_dim", 5}});
  if (family == "glm4_moe")
    json.update({{"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 12},
                 {"first_k_dense_replace", 1},
                 {"attention_bias", true},
                 {"use_qk_norm", true},
                 {"partial_rotary_factor", 0.75}});
  if (family == "gpt_oss")
    json.update({{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"sliding_window", 5}});
  if (family == "llama") json["attention_bias"] = json["mlp_bias"] = true;
  return json;
}

/// A Hugging Face folder with random weights, and our model of it.
struct Case {
  nn::ModelConfig model;
  std::unique_ptr<nn::ParameterTable> table;
  std::map<std::string, Stored> tensors;
  std::map<std::string, std::vector<float>> values;  // the expected import, by our names

  explicit Case(const Json& config)
      : model(read_config(config.dump(), {}, Strictness::kStrict).model),
        table(std::make_unique<nn::ParameterTable>(model)),
        config_(config) {}

  void fill(const Style& style) {
    std::mt19937 random(5);
    const std::string prefix(tensor_prefix(config_["model_type"].get<std::string>()));
    for (const Binding& binding :
         bindings(config_["model_type"].get<std::string>(), model, *table, Absent::kLeftOut, style.experts)) {
      int64_t size = dtype_bytes(*dtype_from_name(style.dtype));
      for (const int64_t dim : binding.hf_shape) size *= dim;
      Stored tensor{style.dtype, binding.hf_shape, std::string(static_cast<size_t>(size), '\0')};
      for (char& byte : tensor.bytes)
        byte = static_cast<char>(random());  // any bits, including infinities and NaNs
      const bool strip = !style.prefixed && binding.hf_name.compare(0, prefix.size(), prefix) == 0;
      tensors[strip ? binding.hf_name.substr(prefix.size()) : binding.hf_name] = std::move(tensor);
    }
  }

  /// Writes all files; tensors are distributed over the shards in turn.
  void write(const std::string& path, int shards) const {
    write_text(path + "/config.json", config_.dump(2) + "\n");
    std::map<std::string, std::string> map;
    for (int shard = 0; shard < shards; ++shard) {
      const std::string name = shards == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
      std::vector<TensorInfo> infos;
      int at = 0;
      for (const auto& [tensor_name, tensor] : tensors)
        if (at++ % shards == shard) infos.push_back({tensor_name, tensor.dtype, tensor.shape, 0, 0});
      SafetensorsWriter writer(Folder::open(path), name, infos, {{"format", "pt"}});
      for (const TensorInfo& info : infos) {
        const std::string& bytes = tensors.at(info.name).bytes;
        writer.append(bytes.data(), static_cast<int64_t>(bytes.size()));
        map[info.name] = name;
      }
      writer.finish();
    }
    if (shards == 1) return;
    int64_t total = 0;
    for (const auto& [name, tensor] : tensors) total += static_cast<int64_t>(tensor.bytes.size());
    write_text(
        path + "/model.safetensors.index.json",
        Json{{"metadata", {{"total_size", total}, {"total_parameters", 5}}}, {"weight_map", map}}.dump(2) +
            "\n");
  }

  ExtraFiles import(const std::string& path) {
    for (const nn::Parameter& p : table->all()) values[p.name].assign(static_cast<size_t>(p.size), -7.0f);
    std::set<std::string> asked;
    size_t whole = 0;
    const auto place = [&](const std::string& name) { return asked.insert(name), values.at(name).data(); };
    ExtraFiles extra = import_weights(path, model, *table, place, [&] {
      EXPECT_LE(asked.size(), 3u) << "more than one stored tensor's parameters at once";
      whole += std::exchange(asked, {}).size();
    });
    EXPECT_EQ(whole, table->all().size());
    return extra;
  }

  void export_to(const std::string& path, const ExtraFiles& extra, const std::string& dtype = "") const {
    std::set<std::string> held;  // parameters that the export may still read
    size_t most = 0;
    export_folder(
        path, model, *table,
        [&](const std::string& name) {
          held.insert(name);
          most = std::max(most, held.size());
          return values.at(name).data();
        },
        extra, dtype, [&] { held.clear(); });
    EXPECT_TRUE(held.empty());
    if (model.moe.experts == 0) {
      EXPECT_LE(most, 3u) << "no family stores more than query, key and value as one tensor";
    }
  }

  Json config_;
};

inline void expect_same_folder(const std::string& a, const std::string& b) {
  ASSERT_EQ(listing(a), listing(b));
  for (const auto& entry : std::filesystem::directory_iterator(a)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(read_text(a + "/" + name) == read_text(b + "/" + name)) << name;
  }
}

}  // namespace hawser::checkpoint::hf
