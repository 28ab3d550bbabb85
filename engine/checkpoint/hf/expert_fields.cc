// Expert fields: reads and writes the experts of mixtral, qwen2_moe, qwen3_moe, dots1, deepseek_v3, glm4_moe
// and gpt_oss in config.json.
#include <fmt/format.h>

#include <algorithm>

#include "engine/checkpoint/hf/hf_config.h"

namespace hawser::checkpoint::hf {
namespace {

using nn::ModelConfig;
using nn::MoeConfig;

constexpr int64_t kMostExperts = 1024;  // same limit as the config schema

/// True for families whose experts are in all layers and have the width intermediate_size.
bool has_plain_experts(std::string_view family) { return family == "mixtral" || is_gpt_oss(family); }

/// Reads the number of experts under its old name or its new one.
int64_t read_count(ConfigFields* fields, const char* key, const char* other_key, int64_t fallback) {
  if (fields->has(key) && fields->has(other_key) && !fields->same_value(key, *fields, other_key))
    fields->problem(other_key, fmt::format("is {}, but {} is {}; remove the wrong one",
                                           fields->value_text(other_key), key, fields->value_text(key)));
  const int64_t other = fields->integer(other_key, fallback, 1, kMostExperts);
  const int64_t count = fields->integer(key, other, 1, kMostExperts);
  if (count < 2) fields->problem(key, fmt::format("is {}; a model with experts has 2 or more", count));
  return count;
}

/// Returns the sparse layers: every decoder_sparse_step-th layer except those in mlp_only_layers.
nn::LayerSet read_qwen_layers(ConfigFields* fields, int64_t layers) {
  const int64_t step = fields->integer("decoder_sparse_step", 1);
  nn::LayerSet sparse;
  for (int64_t i = 0; i < layers; ++i) sparse.has.push_back((i + 1) % step == 0);
  for (const int64_t layer : fields->integers("mlp_only_layers"))
    if (layer >= 0 && layer < layers) sparse.has[static_cast<size_t>(layer)] = false;
  return sparse;
}

/// Reads the experts of mixtral or gpt_oss: all layers have them, and gate weights are always normalised.
void read_plain(ConfigFields* fields, bool gpt_oss, ModelConfig* model) {
  MoeConfig& moe = model->moe;
  moe.experts = read_count(fields, "num_local_experts", "num_experts", gpt_oss ? 128 : 8);
  moe.top_k = fields->integer("num_experts_per_tok", gpt_oss ? 4 : 2, 1, kMostExperts);
  if (gpt_oss) fields->require("experts_per_token", moe.top_k, "num_experts_per_tok");
  moe.width = model->mlp_width;
  moe.normalize = true;
  moe.layers.has.assign(static_cast<size_t>(model->layers), true);
}

void read_qwen(ConfigFields* fields, bool shared, ModelConfig* model) {
  MoeConfig& moe = model->moe;
  moe.experts = read_count(fields, "num_experts", "num_local_experts", shared ? 60 : 128);
  moe.top_k = fields->integer("num_experts_per_tok", shared ? 4 : 8, 1, kMostExperts);
  moe.width = fields->integer("moe_intermediate_size", shared ? 1408 : 768);
  moe.normalize = fields->flag("norm_topk_prob", false);
  moe.layers = read_qwen_layers(fields, model->layers);
  if (!shared) return;
  moe.shared_width = fields->integer("shared_expert_intermediate_size", 5632);
  moe.shared_gate = true;
}

/// Transformers' values for absent keys of a family with DeepSeek-V3's router.
struct RoutedDefaults {
  int64_t experts, top_k, width, groups, top_groups, dense_layers;
  bool normalize;
  double scale;
};

RoutedDefaults routed_defaults(std::string_view family) {
  if (is_deepseek(family)) return {256, 8, 2048, 8, 4, 3, true, 2.5};
  if (is_glm(family)) return {128, 8, 1408, 1, 1, 1, true, 1.0};
  return {1, 1, 1408, 1, 1, 0, false, 1.0};
}

/// Reads DeepSeek-V3's router (sigmoids, groups, a bias) and the experts of the families that have it.
void read_routed(ConfigFields* fields, const RoutedDefaults& absent, ModelConfig* model) {
  MoeConfig& moe = model->moe;
  moe.score = nn::RouterScore::kSigmoid;
  moe.experts = read_count(fields, "n_routed_experts", "num_local_experts", absent.experts);
  moe.top_k = fields->integer("num_experts_per_tok", absent.top_k, 1, kMostExperts);
  moe.width = fields->integer("moe_intermediate_size", absent.width);
  moe.normalize = fields->flag("norm_topk_prob", absent.normalize);
  moe.scale = fields->number("routed_scaling_factor", absent.scale, 1e-30);
  moe.groups = fields->integer("n_group", absent.groups, 1, kMostExperts);
  moe.top_groups = fields->integer("topk_group", absent.top_groups, 1, kMostExperts);
  moe.shared_width = moe.width * fields->integer("n_shared_experts", 1, 1, kMostExperts);
  const int64_t dense = fields->integer("first_k_dense_replace", absent.dense_layers, 0);
  for (int64_t i = 0; i < model->layers; ++i) moe.layers.has.push_back(i >= dense);
  if (fields->integer("moe_layer_freq", 1) != 1)
    fields->problem("moe_layer_freq",
                    "is not 1; experts are supported only in all layers after the dense ones");
  for (const char* key : {"scoring_func", "topk_method"}) {
    const std::string word = fields->text(key, "noaux_tc");
    if (word != "noaux_tc" && word != "sigmoid")
      fields->problem(
          key,
          fmt::format("is \"{}\"; only sigmoid scores with a balance bias (noaux_tc) are supported", word));
  }
}

// These functions write JSON without nlohmann's library, whose templates would add 30 kB here.

std::string number(int64_t value) { return fmt::format("{}", value); }
std::string number(bool value) { return value ? "true" : "false"; }
std::string number(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string dense_layers(const MoeConfig& moe) {
  std::string list;
  for (size_t i = 0; i < moe.layers.has.size(); ++i)
    if (!moe.layers.has[i]) list += fmt::format("{}{}", list.empty() ? "" : ", ", i);
  return "[" + list + "]";
}

/// True if all layers from the first sparse one on are sparse.
bool dense_then_sparse(const MoeConfig& moe) {
  return std::is_sorted(moe.layers.has.begin(), moe.layers.has.end());
}

std::string routed_obstacle(const MoeConfig& moe) {
  if (moe.score != nn::RouterScore::kSigmoid) return "scores are not sigmoids";
  if (moe.shared_gate) return "the shared expert has a gate";
  if (moe.shared_width == 0 || moe.shared_width % moe.width != 0)
    return "shared_width is not a multiple of an expert's width";
  return dense_then_sparse(moe) ? "" : "a dense layer comes after a sparse one";
}

}  // namespace

void read_experts(ConfigFields* fields, std::string_view family, ModelConfig* model) {
  MoeConfig& moe = model->moe;
  moe = {};
  moe.scale = 1;
  moe.groups = moe.top_groups = 1;
  if (has_plain_experts(family)) {
    read_plain(fields, is_gpt_oss(family), model);
    if (family == "mixtral" && fields->number("router_jitter_noise", 0.0, 0.0) != 0)
      fields->problem("router_jitter_noise", "is not 0; noise on a router's input is not supported");
  } else if (routes_as_deepseek(family)) {
    read_routed(fields, routed_defaults(family), model);
  } else {
    read_qwen(fields, family == "qwen2_moe", model);
  }
  if (fields->flag("output_router_logits", false))
    fields->problem(
        "output_router_logits",
        "is true, which adds a balance loss that is not supported; set it to false and use moe.aux_loss");
  if (std::find(moe.layers.has.begin(), moe.layers.has.end(), true) == moe.layers.has.end())
    fields->problem("model_type", "means a model with experts, but no layer has experts");
}

std::string experts_obstacle(std::string_view family, const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  if (!has_experts(family)) return moe.experts > 0 ? "there are experts" : "";
  if (moe.experts == 0) return "there are no experts";
  if (routes_as_deepseek(family)) return routed_obstacle(moe);
  if (moe.score != nn::RouterScore::kSoftmax) return "scores are sigmoids";
  if (moe.groups > 1) return "experts are in groups";
  if (moe.scale != 1) return fmt::format("moe.scale is {}", moe.scale);
  if ((family == "qwen2_moe") != (moe.shared_width > 0 && moe.shared_gate))
    return family == "qwen2_moe" ? "there is no shared expert with a gate" : "there is a shared expert";
  if (family != "qwen2_moe" && moe.shared_width > 0) return "there is a shared expert";
  if (!has_plain_experts(family)) return "";
  if (is_gpt_oss(family) && model.mlp != nn::MlpKind::kSwiGluClamped) return "the MLP is not swiglu_clamped";
  if (is_gpt_oss(family) && !model.bias.router) return "the router has no bias";
  if (!moe.normalize) return "weights are not normalised";
  return std::find(moe.layers.has.begin(), moe.layers.has.end(), false) == moe.layers.has.end()
             ? ""
             : "a layer is dense";
}

std::map<std::string, std::string> expert_keys(std::string_view family, const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  if (!has_experts(family)) return {};
  std::map<std::string, std::string> keys = {{"num_experts_per_tok", number(moe.top_k)},
                                             {"output_router_logits", "false"}};
  if (has_plain_experts(family)) {
    keys["num_local_experts"] = number(moe.experts);
    keys["intermediate_size"] = number(moe.width);
    if (is_gpt_oss(family))
      keys["experts_per_token"] = number(moe.top_k), keys["swiglu_limit"] = "7.0";
    else
      keys["router_jitter_noise"] = "0.0";
    return keys;
  }
  keys["moe_intermediate_size"] = number(moe.width);
  keys["norm_topk_prob"] = number(moe.normalize);
  if (routes_as_deepseek(family)) {
    keys["n_routed_experts"] = number(moe.experts);
    keys["routed_scaling_factor"] = number(moe.scale);
    keys["n_group"] = number(moe.groups);
    keys["topk_group"] = number(moe.groups > 1 ? moe.top_groups : 1);
    keys["n_shared_experts"] = number(moe.shared_width / moe.width);
    keys["first_k_dense_replace"] = number(
        int64_t{std::find(moe.layers.has.begin(), moe.layers.has.end(), true) - moe.layers.has.begin()});
    return keys;
  }
  keys["num_experts"] = number(moe.experts);  // both names: releases of Transformers read one of them
  keys["num_local_experts"] = number(moe.experts);
  keys["decoder_sparse_step"] = "1";
  keys["mlp_only_layers"] = dense_layers(moe);
  if (family == "qwen2_moe") {
    keys["shared_expert_intermediate_size"] = number(moe.shared_width);
    keys["qkv_bias"] = number(model.bias.q);
  }
  return keys;
}

}  // namespace hawser::checkpoint::hf
