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

// The enumerators have the same numbers as in the schema.
enum class Norm { kLayerNorm, kRmsNorm };
/// GeGLU uses the tanh form of GELU, as Gemma does; kGeGluExact uses the error function. kSwiGluClamped is
/// GPT-OSS's (kernels::Activation::kClampedSilu).
enum class MlpKind { kGelu, kGeluTanh, kSwiGlu, kGeGlu, kGeGluExact, kSwiGluClamped };

inline bool is_gated(MlpKind kind) { return kind != MlpKind::kGelu && kind != MlpKind::kGeluTanh; }
enum class Position { kLearned, kRotary, kNone };
/// The output of the model: logits of the next token, or one number, as in a reward model.
enum class HeadKind { kLanguage, kScore };
enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };

/// Rotary embedding. `original_context` is the context with which the model was first trained.
struct RopeConfig {
  double theta = 0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 0;
  double low_freq_factor = 0, high_freq_factor = 0;  // used by llama3
  int64_t original_context = 0;                      // used by llama3 and yarn
  double beta_fast = 0, beta_slow = 0;               // used by yarn
  double attention_factor = 0;                       // used by yarn; 0: 0.1 ln(factor) + 1, or from mscale
  double mscale = 0, mscale_all_dim = 0;             // used by yarn; 0: not given
  bool truncate = false;                             // used by yarn: round the ramp's bounds to integers
  double window_theta = 0;  // for layers with a window, which have no scaling; 0: same as the other layers
  int64_t dim = 0;          // rotated elements at the start of a head; not for latent attention
};

/// Latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads are computed from one
/// compressed row; queries from another compressed row, or from x by one matrix. The last rope_dim elements
/// of a head's queries and keys are rotated; all heads share those of the keys.
struct LatentConfig {
  int64_t kv_rank = 0;  ///< 0: no latent attention
  int64_t q_rank = 0;   ///< 0: queries are not compressed
  int64_t rope_dim = 0, value_dim = 0;
  double norm_eps = 0;
  bool interleaved = false;  ///< rotate adjacent elements together; otherwise elements half of rope_dim apart
};

enum class RouterScore { kSoftmax, kSigmoid };

/// Layers of a model, by number. Configs have a short form for all layers.
struct LayerSet {
  std::vector<bool> has;  ///< one entry per layer
  bool operator()(int64_t layer) const { return has[static_cast<size_t>(layer)]; }
};

/// A mixture of experts instead of the MLP of some layers; none if `experts` is 0.
struct MoeConfig {
  int64_t experts = 0, top_k = 0;  ///< (E, k)
  int64_t width = 0;               ///< features of one expert (F)
  LayerSet layers;                 ///< layers that have experts; the other layers are dense
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;  ///< gate weights of the chosen experts are divided by their sum
  double scale = 0;        ///< factor on the gate weights
  int64_t groups = 0, top_groups = 0;
  int64_t shared_width = 0;  ///< features of the expert for every token; 0: none
  bool shared_gate = false;  ///< its output is multiplied by the sigmoid of a separate logit

  /// True if experts are chosen with a balance bias, which sigmoid scores have, as in DeepSeek-V3.
  bool has_bias() const { return score == RouterScore::kSigmoid; }
};

/// Settings for training a mixture of experts. They are not part of the model.
struct MoeTraining {
  double aux_loss = 0, z_loss = 0;  ///< weights of the balance loss and of the z loss
  double balance_rate = 0;
  double capacity_factor = 0;  ///< 0: dropless
  double rows_factor = 1;      ///< most rows between two ranks in a round, relative to balance
};
/// Calls visit(key, member) for each key of the config's moe section.
void each_key(MoeTraining& m, auto&& visit) {
  visit("aux_loss", m.aux_loss);
  visit("z_loss", m.z_loss);
  visit("balance_rate", m.balance_rate);
  visit("capacity_factor", m.capacity_factor);
  visit("rows_factor", m.rows_factor);
}

/// Selects the projections (and norms) that have a bias.
struct BiasConfig {
  bool q = false, k = false, v = false, o = false, gate = false, up = false, down = false, norm = false;
  bool router = false;  ///< of a mixture, added to the logits
};

/// Most depths of multi-token prediction.
inline constexpr int64_t kMostAhead = 8;

struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t context = 0;  ///< most positions a row may have (T)
  int64_t layers = 0;
  int64_t width = 0;  ///< width of the residual stream (C)
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
  bool sinks = false;            ///< a learned score of each query head joins its softmax (GPT-OSS)
  bool post_norm = false;        ///< also normalise each branch's output (Gemma)
  std::vector<int64_t> window;   ///< sliding window in tokens for each layer, 0 = none
  double attention_scale = 0;    ///< multiplies q·k; resolved, never 0 (default head_dim^-0.5)
  double attention_softcap = 0;  ///< 0 = none
  double logit_softcap = 0;      ///< 0 = none
  double embedding_scale = 0;
  HeadKind head = HeadKind::kLanguage;
  bool tied_head = false;
  /// Depths of multi-token prediction (nn/ahead_loss.h). Each has a block; their numbers follow those of the
  /// layers.
  int64_t ahead = 0;
  int64_t padding_token = 0;  ///< its embedding row gets no gradient from look-ups; -1: none
  double dropout_embedding = 0, dropout_attention = 0, dropout_residual = 0;
  MoeConfig moe;
  LatentConfig latent;
  AdapterConfig adapter;  ///< not part of the model's keys
  /// The linears of the blocks are kept in records of int8 (Read::kInt8). Not part of the model's keys.
  bool int8_linears = false;

  bool has_score() const { return head == HeadKind::kScore; }
  /// True if the loss reads the embedding's table.
  bool loss_reads_table() const { return tied_head || ahead > 0; }
  int64_t blocks() const { return layers + ahead; }  ///< layers, and the blocks of prediction depths
  /// Returns the layer that block number `layer` is like: itself, or the last layer for a depth's block.
  int64_t kind_of(int64_t layer) const { return std::min(layer, layers - 1); }
  int64_t window_of(int64_t layer) const { return window[static_cast<size_t>(kind_of(layer))]; }
  int64_t outputs() const { return has_score() ? 1 : vocab_size; }  ///< outputs of the head for each token
  bool is_latent() const { return latent.kv_rank > 0; }
  int64_t value_dim() const { return is_latent() ? latent.value_dim : head_dim; }  ///< values of a head
  /// Rotated elements of a head.
  int64_t rope_dim() const { return is_latent() ? latent.rope_dim : rope.dim; }
  bool is_sparse(int64_t layer) const { return moe.experts > 0 && moe.layers(kind_of(layer)); }
  bool has_dense_layer() const {
    return moe.experts == 0 ||
           std::find(moe.layers.has.begin(), moe.layers.has.end(), false) != moe.layers.has.end();
  }
};

/// Returns the part of each block that one of `tp` ranks computes: its heads and features (Shoeybi et al.,
/// arXiv:1909.08053). If there are fewer key/value heads than ranks, several ranks have the same one. Heads
/// and mlp_width must divide by `tp`.
inline ModelConfig local_model(const ModelConfig& whole, int64_t tp) {
  ModelConfig local = whole;
  local.heads /= tp;
  local.kv_heads = whole.kv_heads < tp ? 1 : whole.kv_heads / tp;
  local.mlp_width /= tp;
  return local;
}

/// Visits the keys of each_model_key for experts.
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
  visit("bias/router", m.bias.router, sparse);
}

/// Visits the keys of each_model_key for latent attention.
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
/// section is written. This is the only list of the keys. `applies` is true if the key has any effect given
/// the keys before it. `window` also represents window_layers. Model: ModelConfig, const or not.
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
  visit("rope/dim", m.rope.dim, rotary && !m.is_latent());
  visit("bias/q", m.bias.q, true);
  visit("bias/k", m.bias.k, true);
  visit("bias/v", m.bias.v, true);
  visit("bias/o", m.bias.o, true);
  visit("bias/gate", m.bias.gate, is_gated(m.mlp));
  visit("bias/up", m.bias.up, true);
  visit("bias/down", m.bias.down, true);
  visit("bias/norm", m.bias.norm, true);
  visit("qk_norm", m.qk_norm, true);
  visit("sinks", m.sinks, true);
  visit("post_norm", m.post_norm, true);
  visit("window", m.window, true);
  visit("attention_scale", m.attention_scale, true);
  visit("attention_softcap", m.attention_softcap, true);
  visit("head", m.head, m.has_score());  // a config without `head` describes a language model
  visit("logit_softcap", m.logit_softcap, !m.has_score());
  visit("embedding_scale", m.embedding_scale, true);
  visit("padding_token", m.padding_token, true);
  visit("tied_head", m.tied_head, !m.has_score());
  visit("ahead", m.ahead, m.ahead > 0);  // a config without `ahead` describes a model without depths
  visit("dropout/embedding", m.dropout_embedding, true);
  visit("dropout/attention", m.dropout_attention, true);
  visit("dropout/residual", m.dropout_residual, true);
  each_expert_key(m, visit);
  each_latent_key(m, visit);
}

}  // namespace hawser::nn
