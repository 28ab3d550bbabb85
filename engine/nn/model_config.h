// ModelConfig: a decoder-only transformer in numbers. Filled by config::resolve, read by every module.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::nn {

enum class Norm { kLayerNorm, kRmsNorm };
/// GeGLU gates with the tanh form, as Gemma does; kGeGluExact with that of the error function.
enum class MlpKind { kGelu, kGeluTanh, kSwiGlu, kGeGlu, kGeGluExact };

inline bool is_gated(MlpKind kind) {
  return kind == MlpKind::kSwiGlu || kind == MlpKind::kGeGlu || kind == MlpKind::kGeGluExact;
}
enum class Position { kLearned, kRotary, kNone };
enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };

/// Rotary embedding. `original_context` is the context the model was first trained with.
struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  int64_t original_context = 0;                          // llama3, yarn
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double attention_factor = 0.0;                         // yarn; 0: 0.1 ln(factor) + 1, or from mscale
  double mscale = 0.0, mscale_all_dim = 0.0;             // yarn; 0: not given
  bool truncate = true;                                  // yarn: round the ramp's bounds to whole dimensions
};

/// Which projections (and norms) carry a bias.
struct BiasConfig {
  bool q = true, k = true, v = true, o = true, gate = true, up = true, down = true, norm = true;
};

struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t context = 0;  ///< most positions a row may have (T)
  int64_t layers = 0;
  int64_t width = 0;  ///< residual stream (C)
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t mlp_width = 0;
  Norm norm = Norm::kLayerNorm;
  double norm_eps = 1e-5;
  double norm_weight_offset = 0.0;  ///< 1 for Gemma, whose norm weights are stored minus one
  MlpKind mlp = MlpKind::kGelu;
  Position position = Position::kLearned;
  RopeConfig rope;
  BiasConfig bias;
  bool qk_norm = false;            ///< RMSNorm over each head of q and k before the rotation (Qwen3)
  bool post_norm = false;          ///< also normalise each branch's output (Gemma 2)
  std::vector<int64_t> window;     ///< per layer: sliding window in tokens, 0 = none. Size = layers
  double attention_scale = 0.0;    ///< multiplies q·k; resolved, never 0 (default head_dim^-0.5)
  double attention_softcap = 0.0;  ///< 0 = none
  double logit_softcap = 0.0;      ///< 0 = none
  double embedding_scale = 1.0;
  bool tied_head = true;
  int64_t padding_token = -1;  ///< its embedding row takes no gradient from look-ups; -1: none
  double dropout_embedding = 0.0, dropout_attention = 0.0, dropout_residual = 0.0;
};

}  // namespace hawser::nn
