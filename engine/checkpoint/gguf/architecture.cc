#include "engine/checkpoint/gguf/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/nn/rope_table.h"

namespace hawser::checkpoint::gguf {
namespace {

using nn::ModelConfig;
using nn::RopeScaling;

constexpr struct {
  std::string_view family, name;
  bool rotates_pairs;
} kArchitectures[] = {
    {"gpt2", "gpt2", false},          {"llama", "llama", true},         {"mistral", "llama", true},
    {"mixtral", "llama", true},       {"qwen2", "qwen2", false},        {"qwen3", "qwen3", false},
    {"gemma2", "gemma2", false},      {"gemma3_text", "gemma3", false}, {"qwen2_moe", "qwen2moe", false},
    {"qwen3_moe", "qwen3moe", false}, {"dots1", "dots1", false},        {"deepseek_v3", "deepseek2", true},
    {"glm4_moe", "glm4moe", false},   {"gpt_oss", "gpt-oss", false},
};

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(std::abs(a), std::abs(b)); }

bool routes_as_deepseek(std::string_view name) {
  return name == "dots1" || name == "deepseek2" || name == "glm4moe";
}

/// True if layers 0 to n - 1 are dense and all others have experts.
bool is_dense_then_sparse(const ModelConfig& m) {
  bool sparse = false;
  for (int64_t layer = 0; layer < m.layers; ++layer) {
    if (sparse && !m.is_sparse(layer)) return false;
    sparse = m.is_sparse(layer);
  }
  return sparse;
}

int64_t dense_layers(const ModelConfig& m) {
  int64_t n = 0;
  while (n < m.layers && !m.is_sparse(n)) ++n;
  return n;
}

/// Returns the size of the windows; 0 if no layer has one.
int64_t window_size(const ModelConfig& m) { return *std::max_element(m.window.begin(), m.window.end()); }

/// Returns the factor that llama.cpp applies to queries times keys. It knows the two Gemma models with
/// another factor by their number of layers.
double score_scale(std::string_view name, const ModelConfig& m) {
  const bool by_width = (name == "gemma2" && m.layers == 46) || (name == "gemma3" && m.layers == 62);
  return by_width ? std::sqrt(static_cast<double>(m.heads) / static_cast<double>(m.width))
                  : hf::usual_attention_scale(m);
}

/// Returns the number of layers after which llama.cpp's pattern of windows repeats: all but the last of them
/// have a window. 0: the architecture has no windows.
int64_t window_period(std::string_view name) {
  return name == "gemma2" || name == "gpt-oss" ? 2 : name == "gemma3" ? 6 : 0;
}

std::string window_obstacle(std::string_view name, const ModelConfig& m) {
  const int64_t size = window_size(m), period = window_period(name);
  const bool own_rotation = m.rope.window_theta > 0;  // of layers with a window, whatever their size
  if (size == 0 || (size >= m.context && !own_rotation)) return "";
  const auto& windows = m.window;
  const bool everywhere = std::count(windows.begin(), windows.end(), size) == m.layers;
  if (name == "llama" && everywhere) return "";
  if (period == 0) return "its sliding windows (/model/window)";
  for (int64_t layer = 0; layer < m.layers; ++layer)
    if ((windows[static_cast<size_t>(layer)] > 0) != (layer % period < period - 1))
      return fmt::format(
          "its sliding windows (/model/window_layers), which must be on all layers but each {}",
          period == 2 ? "2nd" : "6th");
  return "";
}

std::string rope_obstacle(std::string_view name, const ModelConfig& m) {
  const nn::RopeConfig& rope = m.rope;
  if (name == "gemma3" && rope.window_theta == 0 && rope.scaling != RopeScaling::kNone)
    return "its rotation, which is scaled in layers with a window too (/model/rope/window_theta 0)";
  if (rope.scaling != RopeScaling::kYarn) return "";
  if (!rope.truncate) return "YaRN without truncation (/model/rope/truncate false)";
  if (m.is_latent() && rope.mscale != rope.mscale_all_dim)
    return "YaRN with an mscale that differs from mscale_all_dim (/model/rope)";
  return "";
}

std::string expert_obstacle(std::string_view name, const ModelConfig& m) {
  const nn::MoeConfig& moe = m.moe;
  if (moe.experts == 0) return "";
  if (!is_dense_then_sparse(m)) return "dense layers after layers with experts (/model/moe/layers)";
  if (routes_as_deepseek(name)) {
    if (moe.shared_width % moe.width != 0)
      return "a shared expert whose width is not a multiple of an expert's (/model/moe/shared_width)";
    if (moe.shared_width == 0)
      return "layers with experts but without a shared expert (/model/moe/shared_width)";
    return "";
  }
  if (dense_layers(m) > 0) return "dense layers (/model/moe/layers)";
  const bool normalizes = name != "qwen2moe";
  if (moe.normalize != normalizes)
    return fmt::format("gate weights that are {}normalised (/model/moe/normalize)",
                       moe.normalize ? "" : "not ");
  if (moe.scale != 1)
    return fmt::format("gate weights that are multiplied by {} (/model/moe/scale)", moe.scale);
  return "";
}

std::string latent_obstacle(const ModelConfig& m) {
  if (!m.is_latent()) return "";
  if (m.latent.q_rank == 0) return "queries that are not compressed (/model/latent/q_rank 0)";
  if (m.latent.norm_eps != m.norm_eps)
    return "an epsilon of its own for the norms of latent attention (/model/latent/norm_eps)";
  return "";
}

void add_rope(const std::string& prefix, const ModelConfig& m, Metadata* metadata) {
  const nn::RopeConfig& rope = m.rope;
  metadata->add(prefix + "rope.dimension_count", static_cast<uint32_t>(m.rope_dim()));
  metadata->add(prefix + "rope.freq_base", static_cast<float>(rope.theta));
  if (prefix == "gemma3.")
    metadata->add(prefix + "rope.freq_base_swa",
                  static_cast<float>(rope.window_theta > 0 ? rope.window_theta : rope.theta));
  const std::string scaling = prefix + "rope.scaling.";
  const bool linear = rope.scaling == RopeScaling::kLinear, yarn = rope.scaling == RopeScaling::kYarn;
  if (!linear && !yarn) return;  // llama3 is a tensor of factors
  metadata->add(scaling + "type", linear ? "linear" : "yarn");
  metadata->add(scaling + "factor", static_cast<float>(rope.factor));
  if (linear) return;
  metadata->add(scaling + "original_context_length", static_cast<uint32_t>(rope.original_context));
  metadata->add(scaling + "yarn_beta_fast", static_cast<float>(rope.beta_fast));
  metadata->add(scaling + "yarn_beta_slow", static_cast<float>(rope.beta_slow));
  if (m.is_latent()) {
    metadata->add(scaling + "yarn_log_multiplier", static_cast<float>(0.1 * rope.mscale_all_dim));
  } else if (rope.attention_factor > 0) {  // llama.cpp multiplies it by the default
    const double usual = nn::yarn_mscale(rope.factor, 1.0);
    metadata->add(scaling + "attn_factor", static_cast<float>(rope.attention_factor / usual));
  }
}

void add_attention(const std::string& prefix, const ModelConfig& m, Metadata* metadata) {
  const std::string attention = prefix + "attention.";
  const bool latent = m.is_latent();
  metadata->add(attention + "head_count", static_cast<uint32_t>(m.heads));
  metadata->add(attention + "head_count_kv", static_cast<uint32_t>(latent ? 1 : m.kv_heads));
  metadata->add(
      attention + (m.norm == nn::Norm::kLayerNorm ? "layer_norm_epsilon" : "layer_norm_rms_epsilon"),
      static_cast<float>(m.norm_eps));
  if (latent) {  // llama.cpp computes with the compressed row, which all heads share
    metadata->add(attention + "key_length", static_cast<uint32_t>(m.latent.kv_rank + m.latent.rope_dim));
    metadata->add(attention + "value_length", static_cast<uint32_t>(m.latent.kv_rank));
    metadata->add(attention + "key_length_mla", static_cast<uint32_t>(m.head_dim));
    metadata->add(attention + "value_length_mla", static_cast<uint32_t>(m.latent.value_dim));
    metadata->add(attention + "q_lora_rank", static_cast<uint32_t>(m.latent.q_rank));
    metadata->add(attention + "kv_lora_rank", static_cast<uint32_t>(m.latent.kv_rank));
  } else {
    metadata->add(attention + "key_length", static_cast<uint32_t>(m.head_dim));
    metadata->add(attention + "value_length", static_cast<uint32_t>(m.head_dim));
  }
}

void add_experts(const std::string& prefix, const std::string& name, const ModelConfig& m,
                 Metadata* metadata) {
  const nn::MoeConfig& moe = m.moe;
  metadata->add(prefix + "expert_count", static_cast<uint32_t>(moe.experts));
  metadata->add(prefix + "expert_used_count", static_cast<uint32_t>(moe.top_k));
  if (name == "llama") return;
  metadata->add(prefix + "expert_feed_forward_length", static_cast<uint32_t>(moe.width));
  if (name == "qwen2moe")
    metadata->add(prefix + "expert_shared_feed_forward_length", static_cast<uint32_t>(moe.shared_width));
  if (!routes_as_deepseek(name)) return;
  metadata->add(prefix + "leading_dense_block_count", static_cast<uint32_t>(dense_layers(m)));
  metadata->add(prefix + "expert_shared_count", static_cast<uint32_t>(moe.shared_width / moe.width));
  metadata->add(prefix + "expert_weights_scale", static_cast<float>(moe.scale));
  metadata->add(prefix + "expert_weights_norm", moe.normalize);
  metadata->add(prefix + "expert_gating_func", uint32_t{moe.score == nn::RouterScore::kSigmoid ? 2u : 1u});
  if (moe.groups <= 1) return;
  metadata->add(prefix + "expert_group_count", static_cast<uint32_t>(moe.groups));
  metadata->add(prefix + "expert_group_used_count", static_cast<uint32_t>(moe.top_groups));
}

/// Returns the property of the model that llama.cpp does not support; "" if there is none.
std::string missing_feature(std::string_view name, const ModelConfig& m) {
  if (name.empty()) return "its family";
  if (m.has_score()) return "its head, which computes one score (/model/head)";
  if (m.mlp == nn::MlpKind::kGelu)
    return "GELU by the error function (/model/mlp \"gelu\"; \"gelu_tanh\" works)";
  if (m.mlp == nn::MlpKind::kGeGluExact)
    return "GeGLU by the error function (/model/mlp \"geglu_exact\"; \"geglu\" works)";
  if (m.ahead > 0) return "multi-token prediction (/model/ahead)";
  if (name == "gpt-oss" && !m.bias.q) return "attention without biases (/model/bias/q)";
  const bool gemma2 = name == "gemma2";
  if (gemma2 != (m.attention_softcap > 0))
    return gemma2 ? "the missing soft cap of attention (/model/attention_softcap)"
                  : "its soft cap of attention (/model/attention_softcap)";
  if (gemma2 != (m.logit_softcap > 0))
    return gemma2 ? "the missing soft cap of logits (/model/logit_softcap)"
                  : "its soft cap of logits (/model/logit_softcap)";
  if (!near(m.attention_scale, score_scale(name, m)))
    return fmt::format("its /model/attention_scale of {}; {} works", m.attention_scale, score_scale(name, m));
  for (const std::string& lacks :
       {window_obstacle(name, m), rope_obstacle(name, m), expert_obstacle(name, m), latent_obstacle(m)})
    if (!lacks.empty()) return lacks;
  return "";
}

}  // namespace

Architecture architecture_of(std::string_view family) {
  for (const auto& known : kArchitectures)
    if (known.family == family) return {std::string(known.name), known.rotates_pairs};
  return {};
}

void check_model(std::string_view family, const ModelConfig& model) {
  const std::string lacks = missing_feature(architecture_of(family).name, model);
  if (!lacks.empty())
    fail(Code::kFailedPrecondition, "llama.cpp cannot compute this {} model because of {}", family, lacks);
}

void add_model(std::string_view family, const ModelConfig& m, Metadata* metadata) {
  const std::string name = architecture_of(family).name, prefix = name + ".";
  const int64_t window = window_size(m);
  const bool shorter = name == "llama" && window > 0 && window < m.context;
  const bool only_experts = m.moe.experts > 0 && !m.has_dense_layer();
  metadata->add(prefix + "vocab_size", static_cast<uint32_t>(m.vocab_size));
  metadata->add(prefix + "context_length", static_cast<uint32_t>(shorter ? window : m.context));
  metadata->add(prefix + "embedding_length", static_cast<uint32_t>(m.width));
  metadata->add(prefix + "block_count", static_cast<uint32_t>(m.layers));
  metadata->add(prefix + "feed_forward_length",
                static_cast<uint32_t>(only_experts ? m.moe.width : m.mlp_width));
  add_attention(prefix, m, metadata);
  if (m.position == nn::Position::kRotary) add_rope(prefix, m, metadata);
  if (window_period(name) > 0)
    metadata->add(prefix + "attention.sliding_window",
                  static_cast<uint32_t>(window > 0 ? window : m.context));
  if (m.attention_softcap > 0)
    metadata->add(prefix + "attn_logit_softcapping", static_cast<float>(m.attention_softcap));
  if (m.logit_softcap > 0)
    metadata->add(prefix + "final_logit_softcapping", static_cast<float>(m.logit_softcap));
  if (m.moe.experts > 0) add_experts(prefix, name, m, metadata);
}

}  // namespace hawser::checkpoint::gguf
