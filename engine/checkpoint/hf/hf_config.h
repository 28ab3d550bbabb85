// Config reader: reads the model from a Hugging Face config.json with each family's own defaults and
// semantics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/hf/config_fields.h"
#include "engine/nn/model_config.h"

namespace hawser::checkpoint::hf {

/// True for Gemma 2 and 3, which share their differences from the other families.
inline bool is_gemma(std::string_view family) { return family == "gemma2" || family == "gemma3_text"; }

/// True for the only family with latent attention. Its router is that of dots1.
inline bool is_deepseek(std::string_view family) { return family == "deepseek_v3"; }
/// True for GLM-4.5, whose heads rotate in part and may have norms of queries and keys.
inline bool is_glm(std::string_view family) { return family == "glm4_moe"; }
/// True for GPT-OSS: attention sinks, a clamped SwiGLU, and biases of experts and routers.
inline bool is_gpt_oss(std::string_view family) { return family == "gpt_oss"; }
inline bool routes_as_deepseek(std::string_view family) {
  return family == "dots1" || is_deepseek(family) || is_glm(family);
}
/// True for families that are published with layers that predict further tokens.
inline bool predicts_further(std::string_view family) { return is_deepseek(family) || is_glm(family); }

/// The values that Transformers uses for absent keys (models/<family>/configuration_<family>.py).
struct FamilyDefaults {
  int64_t vocab_size, width, mlp_width, layers, heads;
  int64_t kv_heads;  ///< 0: as many as heads
  int64_t head_dim;  ///< 0: width / heads
  int64_t context;
  double norm_eps;
  bool tied;
};

struct Family {
  const char* name;            ///< model_type
  const char* class_prefix;    ///< "Llama" of Transformers' LlamaForCausalLM
  const char* dense_relative;  ///< the family with the same attention and norms without experts, or itself
  FamilyDefaults defaults;
};

/// All families. A model is exported as the first family of this table that can express it.
inline constexpr Family kFamilies[] = {
    {"gpt2", "GPT2", "gpt2", {50257, 768, 0, 12, 12, 0, 0, 1024, 1e-5, true}},
    {"llama", "Llama", "llama", {32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, false}},
    {"mistral", "Mistral", "mistral", {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, false}},
    {"qwen2", "Qwen2", "qwen2", {151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6, false}},
    {"qwen3", "Qwen3", "qwen3", {151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, false}},
    {"gemma2", "Gemma2", "gemma2", {256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6, true}},
    {"gemma3_text", "Gemma3", "gemma3_text", {262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, true}},
    {"mixtral", "Mixtral", "mistral", {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-5, false}},
    {"qwen2_moe", "Qwen2Moe", "qwen2", {151936, 2048, 5632, 24, 16, 16, 0, 32768, 1e-6, false}},
    {"qwen3_moe", "Qwen3Moe", "qwen3", {151936, 2048, 6144, 24, 32, 4, 0, 32768, 1e-6, false}},
    {"dots1", "Dots1", "qwen3", {152064, 4608, 10944, 62, 32, 32, 0, 2048, 1e-6, false}},
    {"deepseek_v3", "DeepseekV3", "llama", {129280, 7168, 18432, 61, 128, 128, 64, 4096, 1e-6, false}},
    {"glm4_moe", "Glm4Moe", "llama", {151552, 4096, 10944, 46, 96, 8, 0, 131072, 1e-5, false}},
    {"gpt_oss", "GptOss", "llama", {201088, 2880, 2880, 36, 64, 8, 64, 131072, 1e-5, false}},
};

const Family* find_family(std::string_view name);  ///< null for an unknown family
/// Returns the row of a family; `name` must be one of them.
const Family& family_row(std::string_view name);
/// Returns the names of all families.
std::vector<std::string> family_names();
/// Returns the family with the same attention and norms without experts; a dense family itself.
inline std::string_view dense_relative(std::string_view family) { return family_row(family).dense_relative; }
inline bool has_experts(std::string_view family) { return dense_relative(family) != family; }
/// Returns the prefix of the base model's tensors, which folders of a bare base model lack.
inline std::string_view tensor_prefix(std::string_view family) {
  return family == "gpt2" ? "transformer." : "model.";
}

struct HfConfig {
  std::string family;  ///< model_type
  nn::ModelConfig model;
  /// Layers after the model's own that predict further tokens (ModelConfig::ahead). They are omitted if
  /// ignore_keys has their key.
  int64_t further_layers = 0;
};

enum class Strictness {
  kStrict,  ///< any problem throws kConfigInvalid, with all problems of the file
  /// for a config that was already imported: throws only for invalid JSON or an unknown family
  kLenient,
};

HfConfig read_config(std::string_view config_json_text, const std::vector<std::string>& ignore_keys,
                     Strictness strictness);

/// Reads the model's rope from rope_parameters (Transformers 5), or rope_theta and rope_scaling (4), after
/// its context and head_dim. Gemma 3 has a separate base for layers with a window; other families have one
/// rotation for all layers. Only GLM-4.5 rotates a part of each head. GPT-OSS has YaRN unless the file says
/// otherwise.
void read_rope(ConfigFields* fields, std::string_view family, nn::ModelConfig* model);
/// Returns the partial_rotary_factor from which read_rope computes the model's rope.dim.
double rotary_factor(const nn::ModelConfig& model);

/// Reads the experts of a family that has some, after its sizes. Keys that would need another model are
/// problems.
void read_experts(ConfigFields* fields, std::string_view family, nn::ModelConfig* model);
/// Returns "" if the family can express the model's experts, else the feature that it lacks.
std::string experts_obstacle(std::string_view family, const nn::ModelConfig& model);
/// Returns the config.json keys of a family's experts and their values for the model.
std::map<std::string, std::string> expert_keys(std::string_view family, const nn::ModelConfig& model);

/// Reads the sizes of latent attention, and the scale of scores that follows from them.
void read_latent(ConfigFields* fields, nn::ModelConfig* model);
std::map<std::string, std::string> latent_keys(const nn::ModelConfig& model);
/// Returns head_dim^-0.5, in latent attention multiplied by YaRN's mscale squared.
double usual_attention_scale(const nn::ModelConfig& model);

/// True if Transformers has a class of the family for sequence classification.
inline bool has_score_class(std::string_view family) { return family != "dots1" && !is_glm(family); }
/// Reads a score head if the class is one for classification; more than one label is a problem.
void read_head(ConfigFields* fields, nn::ModelConfig* model);
/// Returns "" if the family has a class with the model's head, else the feature that it lacks.
std::string head_obstacle(std::string_view family, const nn::ModelConfig& model);
/// Returns the JSON values of the keys of a model's head, which replace those of the imported config.json; ""
/// removes the key.
std::map<std::string, std::string> head_keys(std::string_view family, const nn::ModelConfig& model,
                                             const std::string& original);

/// True if the key does not affect the mathematics of the forward and backward pass.
bool has_no_effect(const std::string& key);

}  // namespace hawser::checkpoint::hf
