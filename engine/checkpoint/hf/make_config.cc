// Config writer: writes config.json for an exported model, so that both Transformers 4 (rope_theta,
// rope_scaling, torch_dtype) and 5 (rope_parameters, dtype) load it. layer_types and max_window_layers
// duplicate each other for the same reason.
#include <algorithm>
#include <cmath>

#include "engine/base/json.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_config.h"

namespace hawser::checkpoint::hf {
namespace {

/// Returns Transformers' name for the gate's activation function.
const char* gate_name(nn::MlpKind kind) {
  if (kind == nn::MlpKind::kGeGluExact) return "gelu";
  return kind == nn::MlpKind::kGeGlu ? "gelu_pytorch_tanh" : "silu";
}

using nn::ModelConfig;

Json gpt2_json(const ModelConfig& model) {
  Json json;
  json["activation_function"] = model.mlp == nn::MlpKind::kGelu ? "gelu" : "gelu_new";
  json["attn_pdrop"] = model.dropout_attention;
  json["embd_pdrop"] = model.dropout_embedding;
  json["resid_pdrop"] = model.dropout_residual;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["n_embd"] = model.width;
  json["n_head"] = model.heads;
  json["n_inner"] = model.mlp_width == 4 * model.width ? Json(nullptr) : Json(model.mlp_width);
  json["n_layer"] = model.layers;
  json["n_positions"] = model.context;
  json["scale_attn_weights"] = model.head_dim == 1 || model.attention_scale != 1.0;
  json["scale_attn_by_inverse_layer_idx"] = false;
  json["reorder_and_upcast_attn"] = false;
  return json;
}

/// Returns the scaling without theta; null if there is none.
Json scaling_json(const nn::RopeConfig& rope, bool latent) {
  if (rope.scaling == nn::RopeScaling::kNone) return nullptr;
  Json json;
  json["factor"] = rope.factor;
  if (rope.scaling == nn::RopeScaling::kLinear) {
    json["rope_type"] = "linear";
    return json;
  }
  json["original_max_position_embeddings"] = rope.original_context;
  if (rope.scaling == nn::RopeScaling::kLlama3) {
    json["rope_type"] = "llama3";
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    return json;
  }
  json["rope_type"] = "yarn";
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  if (rope.attention_factor != 0) json["attention_factor"] = rope.attention_factor;
  const bool both = rope.mscale != 0 && rope.mscale_all_dim != 0;
  if (rope.mscale != 0 && (both || latent)) json["mscale"] = rope.mscale;
  if (rope.mscale_all_dim != 0 && (both || latent)) json["mscale_all_dim"] = rope.mscale_all_dim;
  if (!rope.truncate) json["truncate"] = false;
  return json;
}

/// Returns n if exactly every n-th layer has no window; 0 if the pattern is irregular.
int64_t full_every(const std::vector<int64_t>& window) {
  const auto first = std::find(window.begin(), window.end(), 0);
  const int64_t every = first - window.begin() + 1;
  for (size_t i = 0; i < window.size(); ++i)
    if ((window[i] == 0) != ((static_cast<int64_t>(i) + 1) % every == 0)) return 0;
  return every;
}

void add_windows(std::string_view whole_family, const ModelConfig& model, Json* json) {
  const std::string_view family = dense_relative(whole_family);
  const auto slides = [](int64_t window) { return window > 0; };
  const auto first = std::find_if(model.window.begin(), model.window.end(), slides);
  const bool any = first != model.window.end();
  if (family == "llama" && !is_gpt_oss(whole_family)) return;
  (*json)["sliding_window"] = any ? Json(*first) : Json(nullptr);
  if (family == "mistral") return;
  Json types = Json::array();
  for (const int64_t window : model.window)
    types.push_back(slides(window) ? "sliding_attention" : "full_attention");
  (*json)["layer_types"] = types;
  if (const int64_t pattern = full_every(model.window); family == "gemma3_text" && pattern > 0)
    (*json)["sliding_window_pattern"] = pattern;  // older releases do not read layer_types
  if (is_gemma(family) || is_gpt_oss(whole_family)) return;
  if (whole_family == "dots1") {
    (*json)["max_window_layers"] = any ? first - model.window.begin() : model.layers;
    return;
  }
  // Transformers 4 only supports full-attention layers at the bottom.
  const bool at_top = std::all_of(first, model.window.end(), slides);
  (*json)["use_sliding_window"] = any;
  (*json)["max_window_layers"] = any && at_top ? first - model.window.begin() : model.layers;
}

/// Writes the separate base of layers with a window, under the keys of both versions.
void add_two_rotations(const ModelConfig& model, Json* json) {
  const double theta = model.rope.window_theta > 0 ? model.rope.window_theta : 10000.0;
  (*json)["rope_local_base_freq"] = theta;
  Json by_type;
  by_type["full_attention"] = (*json)["rope_parameters"];
  by_type["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", theta}};
  (*json)["rope_parameters"] = by_type;
}

Json gated_json(std::string_view whole_family, const ModelConfig& model) {
  const std::string_view family = dense_relative(whole_family);
  Json json;
  for (const auto& keys : {expert_keys(whole_family, model), latent_keys(model)})
    for (const auto& [key, value] : keys) json[key] = parse_json<Json>(value);
  json["vocab_size"] = model.vocab_size;
  json["hidden_size"] = model.width;
  if (!json.contains("intermediate_size")) json["intermediate_size"] = model.mlp_width;
  json["num_hidden_layers"] = model.layers;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  if (family != "qwen2" || model.head_dim * model.heads != model.width)
    json["head_dim"] = model.is_latent() ? model.latent.rope_dim : model.head_dim;
  json["max_position_embeddings"] = model.context;
  json["rms_norm_eps"] = model.norm_eps;
  json["attention_dropout"] = model.dropout_attention;
  json["rope_theta"] = model.rope.theta;
  json["rope_scaling"] = scaling_json(model.rope, model.is_latent());
  Json parameters = json["rope_scaling"].is_null() ? Json{{"rope_type", "default"}} : json["rope_scaling"];
  parameters["rope_theta"] = model.rope.theta;
  if (is_glm(whole_family))
    parameters["partial_rotary_factor"] = json["partial_rotary_factor"] = rotary_factor(model);
  json["rope_parameters"] = parameters;
  if (family == "gemma3_text") add_two_rotations(model, &json);
  if (family == "llama" || family == "qwen3" || is_gemma(family)) json["attention_bias"] = model.bias.k;
  if (is_glm(whole_family)) json["use_qk_norm"] = model.qk_norm;
  if (predicts_further(whole_family)) json["num_nextn_predict_layers"] = model.ahead;
  if (whole_family == "llama") json["mlp_bias"] = model.bias.gate;
  json[is_gemma(family) ? "hidden_activation" : "hidden_act"] = gate_name(model.mlp);
  if (is_gemma(family)) {
    json["query_pre_attn_scalar"] = static_cast<int64_t>(std::llround(std::pow(model.attention_scale, -2)));
    json["attn_logit_softcapping"] =
        model.attention_softcap == 0 ? Json(nullptr) : Json(model.attention_softcap);
    json["final_logit_softcapping"] = model.logit_softcap == 0 ? Json(nullptr) : Json(model.logit_softcap);
  }
  add_windows(whole_family, model, &json);
  return json;
}

int64_t integer_in(const Json& json, const char* key, int64_t fallback) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : fallback;
}

}  // namespace

std::string make_config(std::string_view family, const ModelConfig& model, const std::string& dtype,
                        const std::string& original) {
  Json json = family == "gpt2" ? gpt2_json(model) : gated_json(family, model);
  json["model_type"] = family;
  json["vocab_size"] = model.vocab_size;
  json["tie_word_embeddings"] = model.tied_head;
  json["dtype"] = json["torch_dtype"] = dtype;
  json["use_cache"] = true;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[key] = nullptr;
  if (model.padding_token >= 0) json["pad_token_id"] = model.padding_token;
  const Json kept = original.empty() ? Json::object() : parse_json<Json>(original);
  for (const auto& [key, value] : kept.items())
    if ((key == "pad_token_id" && family == "gpt2") ||  // for other families it is the model's padding_token
        (has_no_effect(key) && key != "dtype" && key != "torch_dtype" && key != "model_type"))
      json[key] = value;
  for (const auto& [key, value] : head_keys(family, model, original))
    value.empty() ? void(json.erase(key)) : void(json[key] = parse_json<Json>(value));
  // Keeps a negative padding id, which counts from the end of the vocabulary: a positive id would name a real
  // token.
  if (const int64_t padding = integer_in(kept, "pad_token_id", 0);
      padding < 0 && padding + model.vocab_size == model.padding_token)
    json["pad_token_id"] = padding;
  return json.dump(2) + "\n";
}

std::string with_dtype(const std::string& config_json_text, const std::string& dtype) {
  Json json = parse_json<Json>(config_json_text);
  const bool neither = !json.contains("dtype") && !json.contains("torch_dtype");
  for (const char* key : {"dtype", "torch_dtype"})
    if (json.contains(key) || (neither && key[0] == 't')) json[key] = dtype;
  return json.dump(2) + "\n";
}

}  // namespace hawser::checkpoint::hf
