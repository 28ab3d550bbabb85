// ModelConfig -> the model section of a Hawser config. Everything is said, also what equals a default, so
// that no field of a preset shines through an imported model.

#include "engine/base/json.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::checkpoint::hf {
namespace {

using Json = OrderedJson;
using nn::ModelConfig;

const char* mlp_name(nn::MlpKind kind) {
  switch (kind) {
    case nn::MlpKind::kGelu:
      return "gelu";
    case nn::MlpKind::kGeluTanh:
      return "gelu_tanh";
    case nn::MlpKind::kSwiGlu:
      return "swiglu";
    case nn::MlpKind::kGeGlu:
      return "geglu";
    case nn::MlpKind::kGeGluExact:
      return "geglu_exact";
  }
  return "";
}

Json rope_json(const nn::RopeConfig& rope) {
  Json json;
  json["theta"] = rope.theta;
  switch (rope.scaling) {
    case nn::RopeScaling::kNone:
      json["scaling"] = "none";
      return json;
    case nn::RopeScaling::kLinear:
      json["scaling"] = "linear";
      break;
    case nn::RopeScaling::kLlama3:
      json["scaling"] = "llama3";
      break;
    case nn::RopeScaling::kYarn:
      json["scaling"] = "yarn";
      break;
  }
  json["factor"] = rope.factor;
  if (rope.scaling == nn::RopeScaling::kLinear) return json;
  json["original_context"] = rope.original_context;
  if (rope.scaling == nn::RopeScaling::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    return json;
  }
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  json["attention_factor"] = rope.attention_factor;
  json["mscale"] = rope.mscale;
  json["mscale_all_dim"] = rope.mscale_all_dim;
  json["truncate"] = rope.truncate;
  return json;
}

Json bias_json(const ModelConfig& model) {
  Json json;
  json["q"] = model.bias.q;
  json["k"] = model.bias.k;
  json["v"] = model.bias.v;
  json["o"] = model.bias.o;
  if (nn::is_gated(model.mlp)) json["gate"] = model.bias.gate;
  json["up"] = model.bias.up;
  json["down"] = model.bias.down;
  json["norm"] = model.bias.norm;
  return json;
}

void add_windows(const ModelConfig& model, Json* json) {
  int64_t window = 0;
  Json layers = Json::array();
  for (size_t i = 0; i < model.window.size(); ++i)
    if (model.window[i] > 0) {
      window = model.window[i];
      layers.push_back(i);
    }
  (*json)["window"] = window;
  if (window > 0) (*json)["window_layers"] = layers;
}

}  // namespace

std::string model_json(std::string_view config_json_text, const std::vector<std::string>& ignore_keys) {
  const ModelConfig model = read_config(config_json_text, ignore_keys, Strictness::kStrict).model;
  Json json;
  json["vocab_size"] = model.vocab_size;
  json["context"] = model.context;
  json["layers"] = model.layers;
  json["width"] = model.width;
  json["heads"] = model.heads;
  json["kv_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  json["mlp_width"] = model.mlp_width;
  json["norm"] = model.norm == nn::Norm::kLayerNorm ? "layer_norm" : "rms_norm";
  json["norm_eps"] = model.norm_eps;
  json["norm_weight_offset"] = model.norm_weight_offset;
  json["mlp"] = mlp_name(model.mlp);
  json["position"] = model.position == nn::Position::kLearned ? "learned" : "rotary";
  if (model.position == nn::Position::kRotary) json["rope"] = rope_json(model.rope);
  json["bias"] = bias_json(model);
  json["qk_norm"] = model.qk_norm;
  json["post_norm"] = model.post_norm;
  add_windows(model, &json);
  json["attention_scale"] = model.attention_scale;
  json["attention_softcap"] = model.attention_softcap;
  json["logit_softcap"] = model.logit_softcap;
  json["embedding_scale"] = model.embedding_scale;
  json["padding_token"] = model.padding_token;
  json["tied_head"] = model.tied_head;
  json["dropout"] = {{"embedding", model.dropout_embedding},
                     {"attention", model.dropout_attention},
                     {"residual", model.dropout_residual}};
  return Json{{"model", json}}.dump(2);
}

}  // namespace hawser::checkpoint::hf
