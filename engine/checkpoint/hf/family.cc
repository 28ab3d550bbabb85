#include "engine/checkpoint/hf/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/config/model_fields.h"

namespace hawser::checkpoint::hf {
namespace {

using nn::ModelConfig;

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

enum class Windows { kNone, kAll, kMixed };

/// Returns the kind of windows. Windows of different sizes give kMixed and *same = false.
Windows windows_of(const ModelConfig& model, bool* same) {
  int64_t size = 0, count = 0;
  *same = true;
  for (const int64_t window : model.window) {
    if (window <= 0) continue;
    if (size != 0 && window != size) *same = false;
    size = window;
    ++count;
  }
  if (count == 0) return Windows::kNone;
  return count == model.layers && *same ? Windows::kAll : Windows::kMixed;
}

std::string gpt2_obstacle(const ModelConfig& m) {
  const nn::BiasConfig& bias = m.bias;
  bool same;
  if (m.moe.experts > 0) return "there are experts";
  if (m.is_latent()) return "attention is latent";
  if (m.position != nn::Position::kLearned) return "positions are not learned";
  if (m.norm != nn::Norm::kLayerNorm) return "norms are not LayerNorm";
  if (m.mlp != nn::MlpKind::kGelu && m.mlp != nn::MlpKind::kGeluTanh) return "the MLP is gated";
  if (m.kv_heads != m.heads) return "kv_heads differs from heads";
  if (m.heads * m.head_dim != m.width) return "heads times head_dim is not width";
  if (bias.q != bias.k || bias.k != bias.v) return "only some of q, k and v have a bias";
  if (m.qk_norm || m.post_norm) return "there are QK norms or post-norms";
  if (m.sinks) return "there are attention sinks";
  if (windows_of(m, &same) != Windows::kNone) return "there is a sliding window";
  if (m.attention_softcap != 0 || m.logit_softcap != 0) return "there are soft caps";
  if (m.embedding_scale != 1 || m.norm_weight_offset != 0) return "embeddings or norm weights are scaled";
  if (!near(m.attention_scale, usual_attention_scale(m)) && m.attention_scale != 1)
    return "attention_scale is not the default";
  return "";
}

std::string gated_obstacle(std::string_view family, const ModelConfig& m) {
  const nn::BiasConfig& bias = m.bias;
  const std::string lacks = experts_obstacle(family, m);
  if (!lacks.empty()) return lacks;
  const bool mixed_windows = family == "dots1" || is_gpt_oss(family), oss = is_gpt_oss(family);
  const bool latent = is_deepseek(family), glm = is_glm(family);
  if (m.is_latent() != latent) return latent ? "attention is not latent" : "attention is latent";
  family = dense_relative(family);
  const bool gemma = is_gemma(family), gemma3 = family == "gemma3_text", llama = family == "llama";
  bool same = true;
  const Windows windows = windows_of(m, &same);
  if (m.position != nn::Position::kRotary) return "positions are not rotary";
  if (m.norm != nn::Norm::kRmsNorm) return "norms are not RMSNorm";
  if (!nn::is_gated(m.mlp)) return "the MLP is not gated";
  if (gemma && m.mlp == nn::MlpKind::kSwiGlu) return "the MLP is not GeGLU";
  if (bias.gate != bias.up || bias.up != bias.down) return "only some projections of the MLP have a bias";
  if (oss && !bias.gate) return "experts have no biases";
  if (bias.gate && !oss && (!llama || latent || glm)) return "the MLP has biases";
  const bool has_q = !latent || m.latent.q_rank > 0;
  const bool all = bias.q == has_q && bias.k && bias.v == !latent && bias.o == !glm;
  const bool none = !bias.q && !bias.k && !bias.v && !bias.o;
  const bool may_lack = m.moe.experts > 0 && none;  // qkv_bias false
  if (family == "qwen2" && !may_lack && !(bias.q && bias.k && bias.v && !bias.o))
    return "biases are not on q, k and v only";
  if (family == "mistral" && !none) return "attention has biases";
  if (family != "qwen2" && !all && !none) return "only some projections of attention have a bias";
  if (!glm && m.qk_norm != (family == "qwen3" || gemma3))
    return m.qk_norm ? "there are QK norms" : "there are no QK norms";
  if (m.sinks != oss) return m.sinks ? "there are attention sinks" : "there are no attention sinks";
  if (m.post_norm != gemma) return m.post_norm ? "there are post-norms" : "there are no post-norms";
  if (m.norm_weight_offset != (gemma ? 1.0 : 0.0))
    return fmt::format("norm_weight_offset is {}", m.norm_weight_offset);
  if (!near(m.embedding_scale, gemma ? std::sqrt(static_cast<double>(m.width)) : 1.0))
    return fmt::format("embedding_scale is {}", m.embedding_scale);
  if (!gemma && (m.attention_softcap != 0 || m.logit_softcap != 0)) return "there are soft caps";
  if (!gemma && !near(m.attention_scale, usual_attention_scale(m)))
    return fmt::format("attention_scale is {}", m.attention_scale);
  if (gemma && !near(std::round(std::pow(m.attention_scale, -2)), std::pow(m.attention_scale, -2)))
    return "attention_scale is not 1 / sqrt(an integer)";
  if (!same) return "sliding windows differ in size";
  if (gemma3 != (m.rope.window_theta > 0) && windows != Windows::kNone)
    return gemma3 ? "layers with a window have no separate rope theta"
                  : "layers with a window have a separate rope theta";
  if (llama && !mixed_windows && windows != Windows::kNone) return "there is a sliding window";
  if (m.moe.experts > 0 && family != "mistral" && !mixed_windows && windows != Windows::kNone)
    return "there is a sliding window";
  if (family == "mistral" && windows == Windows::kMixed) return "the sliding window is not on all layers";
  if ((llama || gemma) && !latent && !glm && !oss && m.width % m.heads != 0)
    return "heads does not divide width";
  return "";
}

}  // namespace

std::string obstacle(std::string_view family, const ModelConfig& model) {
  std::string known = head_obstacle(family, model);
  if (known.empty()) known = family == "gpt2" ? gpt2_obstacle(model) : gated_obstacle(family, model);
  if (!known.empty()) return known;
  // Reads the family's config.json back: a field that it cannot express is lost there.
  ModelConfig read = read_config(make_config(family, model, "float32", ""), {}, Strictness::kLenient).model;
  if (family == "gpt2") {
    read.padding_token = model.padding_token;  // used in training only
    read.bias = model.bias;                    // missing biases are written as zeros
  }
  if (!model.is_latent() &&
      (model.rope.mscale == 0 || model.rope.mscale_all_dim == 0))  // one of them alone has no effect
    read.rope.mscale = model.rope.mscale, read.rope.mscale_all_dim = model.rope.mscale_all_dim;
  const std::vector<std::string> lost = config::model_differences(model, read);
  return lost.empty() ? "" : fmt::format("its config.json cannot express {}", fmt::join(lost, ", "));
}

std::optional<HfConfig> imported_config(const std::map<std::string, std::string>& files,
                                        const ModelConfig& model) {
  const auto config = files.find("config.json");
  if (config == files.end()) return std::nullopt;
  HfConfig read = read_config(config->second, {}, Strictness::kLenient);
  if (!obstacle(read.family, model).empty()) return std::nullopt;
  return read;
}

std::string obstacles(const ModelConfig& model) {
  std::string text, last;
  for (const std::string& family : family_names()) {  // families with the same obstacle share a line
    const std::string lacks = obstacle(family, model);
    if (!last.empty()) text += lacks == last ? ", " : fmt::format(": {}; ", last);
    text += family;
    last = lacks;
  }
  return fmt::format("{}: {}", text, last);
}

std::string family_of(const ModelConfig& model) {
  for (const std::string& family : family_names())
    if (obstacle(family, model).empty()) return family;
  return "";
}

}  // namespace hawser::checkpoint::hf
