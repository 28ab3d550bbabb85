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

inline constexpr const char* kFamilies[] = {"gpt2",      "llama",     "mistral",     "qwen2",
                                            "qwen3",     "gemma2",    "gemma3_text", "mixtral",
                                            "qwen2_moe", "qwen3_moe", "dots1",       "deepseek_v3"};
/// True for Gemma 2 and 3, which share their differences from the other families.
inline bool is_gemma(std::string_view family) { return family == "gemma2" || family == "gemma3_text"; }

/// True for the only family with latent attention. Its router is that of dots1.
inline bool is_deepseek(std::string_view family) { return family == "deepseek_v3"; }
inline bool routes_as_deepseek(std::string_view family) { return family == "dots1" || is_deepseek(family); }

/// The values that Transformers uses for absent keys.
struct FamilyDefaults {
  int64_t vocab_size, width, mlp_width, layers, heads;
  int64_t kv_heads;  ///< 0: as many as heads
  int64_t head_dim;  ///< 0: width / heads
  int64_t context;
  double norm_eps;
  bool tied;
};
const FamilyDefaults* family_defaults(std::string_view family);  ///< null for an unknown family

struct HfConfig {
  std::string family;  ///< model_type
  nn::ModelConfig model;
  /// Layers after the model's own that predict further tokens. They are omitted, and only if ignore_keys
  /// names the key.
  int64_t further_layers = 0;
};

enum class Strictness {
  kStrict,  ///< any problem throws kConfigInvalid, with all problems of the file
  /// for a config that was already imported: throws only for invalid JSON or an unknown family
  kLenient,
};

HfConfig read_config(std::string_view config_json_text, const std::vector<std::string>& ignore_keys,
                     Strictness strictness);

/// Reads rope_parameters (Transformers 5), or rope_theta and rope_scaling (4). `context` is
/// max_position_embeddings. Gemma 3 has a separate base for layers with a window; other families have one
/// rotation for all layers.
void read_rope(ConfigFields* fields, std::string_view family, int64_t context, nn::RopeConfig* rope);

/// Returns the dense family with the same attention and norms; the family itself if it has no experts.
std::string_view dense_relative(std::string_view family);
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
