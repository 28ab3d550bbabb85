// Latent fields: read and write the latent attention of deepseek_v3 in config.json.
#include <fmt/format.h>

#include <cmath>

#include "engine/checkpoint/hf/hf_config.h"
#include "engine/nn/rope_table.h"

namespace hawser::checkpoint::hf {

double usual_attention_scale(const nn::ModelConfig& model) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(model.head_dim));
  const nn::RopeConfig& rope = model.rope;
  if (!model.is_latent() || rope.scaling != nn::RopeScaling::kYarn || rope.mscale_all_dim == 0) return scale;
  const double mscale = nn::yarn_mscale(rope.factor, rope.mscale_all_dim);
  return scale * mscale * mscale;
}

void read_latent(ConfigFields* fields, nn::ModelConfig* model) {
  nn::LatentConfig& latent = model->latent;
  const int64_t heads = model->kv_heads;
  if (heads != model->heads)
    fields->problem("num_key_value_heads",
                    fmt::format("is {}; in latent attention each of the {} heads has its own keys and values",
                                heads, model->heads));
  latent.kv_rank = fields->integer("kv_lora_rank", 512, 2, 65536);
  latent.q_rank = fields->is_null("q_lora_rank") ? 0 : fields->integer("q_lora_rank", 1536, 1, 65536);
  fields->accept("q_lora_rank");
  latent.rope_dim = fields->integer("qk_rope_head_dim", 64);
  const int64_t own = fields->integer("qk_nope_head_dim", 128);
  latent.value_dim = fields->integer("v_head_dim", 128, 1, 256);
  latent.norm_eps = 1e-6;  // fixed, independent of rms_norm_eps
  latent.interleaved = fields->flag("rope_interleave", true);
  model->head_dim = own + latent.rope_dim;
  fields->accept("qk_head_dim");  // Transformers writes the sum, but computes it from its two parts
  if (latent.rope_dim % 2 != 0)
    fields->problem("qk_rope_head_dim",
                    fmt::format("is {}; rotary positions need an even number", latent.rope_dim));
  if (model->head_dim > 256)
    fields->problem("qk_nope_head_dim",
                    fmt::format("is {}, and with qk_rope_head_dim {} a head has {} features; at "
                                "most 256 are supported",
                                own, latent.rope_dim, model->head_dim));
  nn::BiasConfig& bias = model->bias;  // covers q_a, kv_a and o
  bias.v = false;
  bias.q = bias.q && latent.q_rank > 0;
  model->attention_scale = usual_attention_scale(*model);
}

std::map<std::string, std::string> latent_keys(const nn::ModelConfig& model) {
  std::map<std::string, std::string> keys;
  if (!model.is_latent()) return keys;
  const nn::LatentConfig& latent = model.latent;
  const struct {
    const char* key;
    int64_t value;
  } numbers[] = {
      {"kv_lora_rank", latent.kv_rank},      {"q_lora_rank", latent.q_rank},
      {"qk_rope_head_dim", latent.rope_dim}, {"qk_nope_head_dim", model.head_dim - latent.rope_dim},
      {"qk_head_dim", model.head_dim},       {"v_head_dim", latent.value_dim}};
  for (const auto& [key, value] : numbers) keys[key] = fmt::format("{}", value);
  if (latent.q_rank == 0) keys["q_lora_rank"] = "null";
  keys["rope_interleave"] = latent.interleaved ? "true" : "false";
  return keys;
}

}  // namespace hawser::checkpoint::hf
