#include "engine/checkpoint/hf/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::checkpoint::hf {
namespace {

using nn::ModelConfig;

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

double default_scale(const ModelConfig& model) {
  return 1.0 / std::sqrt(static_cast<double>(model.head_dim));
}

enum class Windows { kNone, kAll, kMixed };

/// Windows of different sizes give kMixed and *same = false.
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
  if (m.position != nn::Position::kLearned) return "positions are not learned";
  if (m.norm != nn::Norm::kLayerNorm || !bias.norm) return "norms are not LayerNorm with bias";
  if (m.mlp != nn::MlpKind::kGelu && m.mlp != nn::MlpKind::kGeluTanh) return "the MLP is gated";
  if (m.kv_heads != m.heads) return "kv_heads differs from heads";
  if (m.heads * m.head_dim != m.width) return "heads times head_dim is not width";
  if (!(bias.q && bias.k && bias.v && bias.o && bias.up && bias.down)) return "a projection has no bias";
  if (m.qk_norm || m.post_norm) return "there are QK norms or post-norms";
  if (windows_of(m, &same) != Windows::kNone) return "there is a sliding window";
  if (m.attention_softcap != 0 || m.logit_softcap != 0) return "there are soft caps";
  if (m.embedding_scale != 1 || m.norm_weight_offset != 0) return "embeddings or norm weights are scaled";
  if (!near(m.attention_scale, default_scale(m)) && m.attention_scale != 1)
    return "attention_scale is not the default";
  return "";
}

std::string gated_obstacle(std::string_view family, const ModelConfig& m) {
  const nn::BiasConfig& bias = m.bias;
  const bool gemma = family == "gemma2", llama = family == "llama";
  bool same = true;
  const Windows windows = windows_of(m, &same);
  if (m.position != nn::Position::kRotary) return "positions are not rotary";
  if (m.norm != nn::Norm::kRmsNorm) return "norms are not RMSNorm";
  if (!nn::is_gated(m.mlp)) return "the MLP is not gated";
  if (gemma && m.mlp == nn::MlpKind::kSwiGlu) return "the MLP is not GeGLU";
  if (bias.gate != bias.up || bias.up != bias.down)
    return "some projections of the MLP have a bias, some not";
  if (bias.gate && !llama) return "the MLP has biases";
  const bool all = bias.q && bias.k && bias.v && bias.o, none = !bias.q && !bias.k && !bias.v && !bias.o;
  if (family == "qwen2" && !(bias.q && bias.k && bias.v && !bias.o))
    return "biases are not on q, k and v only";
  if (family == "mistral" && !none) return "attention has biases";
  if (family != "qwen2" && !all && !none) return "some projections of attention have a bias, some not";
  if (m.qk_norm != (family == "qwen3")) return m.qk_norm ? "there are QK norms" : "there are no QK norms";
  if (m.post_norm != gemma) return m.post_norm ? "there are post-norms" : "there are no post-norms";
  if (m.norm_weight_offset != (gemma ? 1.0 : 0.0))
    return fmt::format("norm_weight_offset is {}", m.norm_weight_offset);
  if (!near(m.embedding_scale, gemma ? std::sqrt(static_cast<double>(m.width)) : 1.0))
    return fmt::format("embedding_scale is {}", m.embedding_scale);
  if (!gemma && (m.attention_softcap != 0 || m.logit_softcap != 0)) return "there are soft caps";
  if (!gemma && !near(m.attention_scale, default_scale(m)))
    return fmt::format("attention_scale is {}", m.attention_scale);
  if (gemma && !near(std::round(std::pow(m.attention_scale, -2)), std::pow(m.attention_scale, -2)))
    return "attention_scale is not the root of an integer, inverted";
  if (!same) return "sliding windows differ in size";
  if (llama && windows != Windows::kNone) return "there is a sliding window";
  if (family == "mistral" && windows == Windows::kMixed) return "the sliding window is not on all layers";
  if ((llama || gemma) && m.width % m.heads != 0) return "heads does not divide width";
  return "";
}

}  // namespace

std::string obstacle(std::string_view family, const ModelConfig& model) {
  return family == "gpt2" ? gpt2_obstacle(model) : gated_obstacle(family, model);
}

std::string obstacles(const ModelConfig& model) {
  std::string text;
  for (const char* family : kFamilies)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", family, obstacle(family, model));
  return text;
}

std::string family_of(const ModelConfig& model) {
  for (const char* family : kFamilies)
    if (obstacle(family, model).empty()) return family;
  return "";
}

bool same_model(const ModelConfig& a, const ModelConfig& b) {
  const auto rope = [](const ModelConfig& m) {
    const nn::RopeConfig& r = m.rope;
    using nn::RopeScaling;
    const bool rotary = m.position == nn::Position::kRotary,
               scaled = rotary && r.scaling != RopeScaling::kNone;
    const bool llama3 = scaled && r.scaling == RopeScaling::kLlama3,
               yarn = scaled && r.scaling == RopeScaling::kYarn;
    return std::vector<double>{
        rotary ? r.theta : 0,           rotary ? static_cast<double>(r.scaling) : 0,
        scaled ? r.factor : 0,          llama3 || yarn ? static_cast<double>(r.original_context) : 0,
        llama3 ? r.low_freq_factor : 0, llama3 ? r.high_freq_factor : 0,
        yarn ? r.beta_fast : 0,         yarn ? r.beta_slow : 0,
        yarn ? r.attention_factor : 0,  yarn ? r.mscale : 0,
        yarn ? r.mscale_all_dim : 0,    yarn && r.truncate ? 1.0 : 0.0};
  };
  const auto biases = [](const ModelConfig& m) {
    const bool gated = nn::is_gated(m.mlp);
    return std::vector<bool>{m.bias.q,
                             m.bias.k,
                             m.bias.v,
                             m.bias.o,
                             gated && m.bias.gate,
                             m.bias.up,
                             m.bias.down,
                             m.norm == nn::Norm::kLayerNorm && m.bias.norm};
  };
  const auto sizes = [](const ModelConfig& m) {
    return std::vector<int64_t>{m.vocab_size,
                                m.context,
                                m.layers,
                                m.width,
                                m.heads,
                                m.kv_heads,
                                m.head_dim,
                                m.mlp_width,
                                static_cast<int64_t>(m.norm),
                                static_cast<int64_t>(m.mlp),
                                static_cast<int64_t>(m.position),
                                m.qk_norm,
                                m.post_norm,
                                m.tied_head};
  };
  return sizes(a) == sizes(b) && biases(a) == biases(b) && rope(a) == rope(b) && a.window == b.window &&
         near(a.norm_eps, b.norm_eps) && a.norm_weight_offset == b.norm_weight_offset &&
         near(a.attention_scale, b.attention_scale) && a.attention_softcap == b.attention_softcap &&
         a.logit_softcap == b.logit_softcap && a.padding_token == b.padding_token &&
         near(a.embedding_scale, b.embedding_scale);
}

}  // namespace hawser::checkpoint::hf
