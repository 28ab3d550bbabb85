// ModelConfig: the hyperparameters of a decoder-only transformer, and the table of their keys.
// config::resolve fills it in; every module reads it. The schema (capi/schema/config.fbs) has the defaults
// and enum names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/nn/adapter_config.h"

namespace hawser::nn {

// Numbered as in the schema.
enum class Norm { kLayerNorm, kRmsNorm };
/// GeGLU uses the tanh form of GELU, as Gemma does; kGeGluExact uses the error function.
enum class MlpKind { kGelu, kGeluTanh, kSwiGlu, kGeGlu, kGeGluExact };

inline bool is_gated(MlpKind kind) {
  return kind == MlpKind::kSwiGlu || kind == MlpKind::kGeGlu || kind == MlpKind::kGeGluExact;
}
enum class Position { kLearned, kRotary, kNone };
/// What the model ends in: logits of the next token, or one number, as a reward model does.
enum class HeadKind { kLanguage, kScore };
enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };

/// Rotary embedding. `original_context` is the context the model was first trained with.
struct RopeConfig {
  double theta = 0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 0;
  double low_freq_factor = 0, high_freq_factor = 0;  // llama3
  int64_t original_context = 0;                      // llama3, yarn
  double beta_fast = 0, beta_slow = 0;               // yarn
  double attention_factor = 0;                       // yarn; 0: 0.1 ln(factor) + 1, or from mscale
  double mscale = 0, mscale_all_dim = 0;             // yarn; 0: not given
  bool truncate = false;                             // yarn: round the ramp's bounds to whole dimensions
  double window_theta = 0;  // of layers with a window, which have no scaling; 0: as all others
};

/// Latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads come from one compressed
/// row, queries from another or from one matrix. Of a head's queries and keys the last rope_dim elements
/// turn; keys share theirs.
struct LatentConfig {
  int64_t kv_rank = 0;  ///< 0: no latent attention
  int64_t q_rank = 0;   ///< 0: one matrix
  int64_t rope_dim = 0, value_dim = 0;
  double norm_eps = 0;
  bool interleaved = false;  ///< neighbours turn together, else elements half of rope_dim apart
};

enum class RouterScore { kSoftmax, kSigmoid };

/// Layers of a model, by number. Short for all of them in configs.
struct LayerSet {
  std::vector<bool> has;  ///< per layer
  bool operator()(int64_t layer) const { return has[static_cast<size_t>(layer)]; }
};

/// A mixture of experts in place of the MLP of some layers; none if `experts` is 0.
struct MoeConfig {
  int64_t experts = 0, top_k = 0;  ///< (E, k)
  int64_t width = 0;               ///< features of one expert (F)
  LayerSet layers;                 ///< that have experts; the others are dense
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;  ///< weights of the chosen experts are divided by their sum
  double scale = 0;        ///< multiplies them
  int64_t groups = 0, top_groups = 0;
  int64_t shared_width = 0;  ///< features of the expert that every token goes to; 0: none
  bool shared_gate = false;  ///< its output is multiplied by the sigmoid of a logit of its own

  /// Scores of a sigmoid are chosen with a balance bias, as in DeepSeek-V3.
  bool has_bias() const { return score == RouterScore::kSigmoid; }
};

/// How a mixture of experts is trained, with the sizes of a step. No part of what a model is.
struct MoeTraining {
  double aux_loss = 0, z_loss = 0;  ///< weights of the balance loss and of the z loss
  double balance_rate = 0;
  double capacity_factor = 0;  ///< 0: dropless
  double rows_factor = 1;      ///< the most rows from one rank to another in a round, over those in balance
  int64_t step_rows = 1;       ///< of the global batch
};

/// Which projections (and norms) carry a bias.
struct BiasConfig {
  bool q = false, k = false, v = false, o = false, gate = false, up = false, down = false, norm = false;
};

struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t context = 0;  ///< most positions a row may have (T)
  int64_t layers = 0;
  int64_t width = 0;  ///< residual stream (C)
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t mlp_width = 0;
  Norm norm = Norm::kLayerNorm;
  double norm_eps = 0;
  double norm_weight_offset = 0;  ///< 1 for Gemma, whose norm weights are stored minus one
  MlpKind mlp = MlpKind::kGelu;
  Position position = Position::kLearned;
  RopeConfig rope;
  BiasConfig bias;
  bool qk_norm = false;          ///< RMSNorm over each head of q and k before the rotation (Qwen3)
  bool post_norm = false;        ///< also normalise each branch's output (Gemma)
  std::vector<int64_t> window;   ///< per layer: sliding window in tokens, 0 = none. Size = layers
  double attention_scale = 0;    ///< multiplies q·k; resolved, never 0 (default head_dim^-0.5)
  double attention_softcap = 0;  ///< 0 = none
  double logit_softcap = 0;      ///< 0 = none
  double embedding_scale = 0;
  HeadKind head = HeadKind::kLanguage;
  bool tied_head = false;
  int64_t padding_token = 0;  ///< its embedding row gets no gradient from look-ups; -1: none
  double dropout_embedding = 0, dropout_attention = 0, dropout_residual = 0;
  MoeConfig moe;
  LatentConfig latent;
  AdapterConfig adapter;  ///< beside the model: none of its keys

  bool has_score() const { return head == HeadKind::kScore; }
  int64_t outputs() const { return has_score() ? 1 : vocab_size; }  ///< of the head, for each token
  bool is_latent() const { return latent.kv_rank > 0; }
  int64_t value_dim() const { return is_latent() ? latent.value_dim : head_dim; }  ///< of a head's values
  int64_t rope_dim() const { return is_latent() ? latent.rope_dim : head_dim; }    ///< of a head, that turn
  bool is_sparse(int64_t layer) const { return moe.experts > 0 && moe.layers(layer); }
  bool has_dense_layer() const {
    return moe.experts == 0 ||
           std::find(moe.layers.has.begin(), moe.layers.has.end(), false) != moe.layers.has.end();
  }
};

/// What one of `tp` ranks computes of each block: its heads and features (Shoeybi et al., arXiv:1909.08053).
/// With fewer key/value heads than ranks, several ranks have the same one. Heads and mlp_width must divide by
/// `tp`.
inline ModelConfig local_model(const ModelConfig& whole, int64_t tp) {
  ModelConfig local = whole;
  local.heads /= tp;
  local.kv_heads = whole.kv_heads < tp ? 1 : whole.kv_heads / tp;
  local.mlp_width /= tp;
  return local;
}

/// The part of each_model_key about experts.
template <typename Model, typename Visit>
void each_expert_key(Model& m, Visit& visit) {
  const bool sparse = m.moe.experts > 0;
  visit("moe/experts", m.moe.experts, sparse);
  visit("moe/top_k", m.moe.top_k, sparse);
  visit("moe/width", m.moe.width, sparse);
  visit("moe/layers", m.moe.layers, sparse);
  visit("moe/score", m.moe.score, sparse);
  visit("moe/normalize", m.moe.normalize, sparse);
  visit("moe/scale", m.moe.scale, sparse);
  visit("moe/groups", m.moe.groups, sparse);
  visit("moe/top_groups", m.moe.top_groups, sparse && m.moe.groups > 1);
  visit("moe/shared_width", m.moe.shared_width, sparse);
  visit("moe/shared_gate", m.moe.shared_gate, sparse && m.moe.shared_width > 0);
}

/// The part about latent attention.
template <typename Model, typename Visit>
void each_latent_key(Model& m, Visit& visit) {
  const bool latent = m.is_latent();
  visit("latent/kv_rank", m.latent.kv_rank, latent);
  visit("latent/q_rank", m.latent.q_rank, latent);
  visit("latent/rope_dim", m.latent.rope_dim, latent);
  visit("latent/value_dim", m.latent.value_dim, latent);
  visit("latent/norm_eps", m.latent.norm_eps, latent);
  visit("latent/interleaved", m.latent.interleaved, latent);
}

/// Calls visit(key, member, applies) for each key of the config's model section, in the order in which the
/// section is written. This is the only list of the keys. `applies` says whether the key has any effect given
/// the ones before it. `window` also represents window_layers. Model: ModelConfig, const or not.
template <typename Model, typename Visit>
void each_model_key(Model& m, Visit&& visit) {
  visit("vocab_size", m.vocab_size, true);
  visit("context", m.context, true);
  visit("layers", m.layers, true);
  visit("width", m.width, true);
  visit("heads", m.heads, true);
  visit("kv_heads", m.kv_heads, true);
  visit("head_dim", m.head_dim, true);
  visit("mlp_width", m.mlp_width, m.has_dense_layer());
  visit("norm", m.norm, true);
  visit("norm_eps", m.norm_eps, true);
  visit("norm_weight_offset", m.norm_weight_offset, true);
  visit("mlp", m.mlp, true);
  visit("position", m.position, true);
  const bool rotary = m.position == Position::kRotary;
  visit("rope/theta", m.rope.theta, rotary);
  visit("rope/scaling", m.rope.scaling, rotary);
  const bool llama3 = rotary && m.rope.scaling == RopeScaling::kLlama3;
  const bool yarn = rotary && m.rope.scaling == RopeScaling::kYarn;
  visit("rope/factor", m.rope.factor, rotary && m.rope.scaling != RopeScaling::kNone);
  visit("rope/original_context", m.rope.original_context, llama3 || yarn);
  visit("rope/low_freq_factor", m.rope.low_freq_factor, llama3);
  visit("rope/high_freq_factor", m.rope.high_freq_factor, llama3);
  visit("rope/beta_fast", m.rope.beta_fast, yarn);
  visit("rope/beta_slow", m.rope.beta_slow, yarn);
  visit("rope/attention_factor", m.rope.attention_factor, yarn);
  visit("rope/mscale", m.rope.mscale, yarn);
  visit("rope/mscale_all_dim", m.rope.mscale_all_dim, yarn);
  visit("rope/truncate", m.rope.truncate, yarn);
  visit("rope/window_theta", m.rope.window_theta, rotary);
  visit("bias/q", m.bias.q, true);
  visit("bias/k", m.bias.k, true);
  visit("bias/v", m.bias.v, true);
  visit("bias/o", m.bias.o, true);
  visit("bias/gate", m.bias.gate, is_gated(m.mlp));
  visit("bias/up", m.bias.up, true);
  visit("bias/down", m.bias.down, true);
  visit("bias/norm", m.bias.norm, true);
  visit("qk_norm", m.qk_norm, true);
  visit("post_norm", m.post_norm, true);
  visit("window", m.window, true);
  visit("attention_scale", m.attention_scale, true);
  visit("attention_softcap", m.attention_softcap, true);
  visit("head", m.head, m.has_score());  // a config without it is a language model's
  visit("logit_softcap", m.logit_softcap, !m.has_score());
  visit("embedding_scale", m.embedding_scale, true);
  visit("padding_token", m.padding_token, true);
  visit("tied_head", m.tied_head, !m.has_score());
  visit("dropout/embedding", m.dropout_embedding, true);
  visit("dropout/attention", m.dropout_attention, true);
  visit("dropout/residual", m.dropout_residual, true);
  each_expert_key(m, visit);
  each_latent_key(m, visit);
}

}  // namespace hawser::nn
