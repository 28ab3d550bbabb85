// Attention: causal self-attention with grouped heads, made of projections, QK-norm, rotation, the core
// (attention_core.h) and the output projection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/nn/attention_core.h"
#include "engine/nn/branch_sum.h"
#include "engine/nn/context.h"
#include "engine/nn/gathered_rows.h"
#include "engine/nn/linear.h"
#include "engine/nn/model_config.h"
#include "engine/nn/norm.h"

namespace hawser::nn {

/// Activations that forward saves for backward. Per row: those of the core; unless the core keeps them in its
/// own form, (H + 2K) D elements of qkv; with QK-norm also (H + K) D elements and H + K floats. Elements have
/// the activation type, statistics are f32.
struct AttentionSaved {
  void* qkv = nullptr;       ///< [rows, (H + 2K) D]: input of the core (normalised, rotated), or null
  void* raw_qk = nullptr;    ///< [rows, (H + K) D]: q and k before their norm; only with QK-norm
  NormSaved q_norm, k_norm;  ///< only with QK-norm
  AttentionCoreSaved core;
};

/// Memory of one layer for generation: keys, then values [capacity, K D]; for latent attention the compressed
/// rows [capacity, kv_rank], then the keys that all heads share [capacity, rope_dim].
struct KvCache {
  void* rows = nullptr;
  int64_t bytes = 0;
  int64_t length = 0;  ///< rows filled before this call
};
/// Returns the bytes of a row: 2 K D elements, or kv_rank + rope_dim elements for latent attention.
inline int64_t cached_bytes(const ModelConfig& local, DType type) {
  const int64_t latent = local.latent.kv_rank + local.rope_dim();
  return (local.is_latent() ? latent : 2 * local.kv_heads * local.head_dim) * dtype_bytes(type);
}

class Attention {
 public:
  /// `model` must outlive the module. cos_sin below is the rope table (null without rotary positions).
  Attention(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  /// Takes memory: from `region` for the inputs of the core; from `kept` for the activations of the core that
  /// the weight pass of a backward reads; from `core` for its other saved activations.
  AttentionSaved take_saved(const Context& ctx, Region& region, Region& core, Region& kept) const;
  /// Return the types of y and dx below.
  DType y_type(const Context& ctx) const { return out_.writes_once() ? ctx.branch_type() : DType::kF32; }
  DType dx_type(const Context& ctx) const { return qkv_.writes_once() ? ctx.branch_type() : DType::kF32; }
  /// Computes addends of y[rows, C] from x[rows, C] (the normalised input, activation type).
  void forward(const Context& ctx, const AttentionSaved& saved, const float* cos_sin, const BranchSum& y,
               GatheredRows* x) const;
  /// Recomputes the activations in `saved`: the inputs of the core from x, unless x is null; then, if
  /// `attends` is true, the activations that the core saves.
  void recompute(const Context& ctx, AttentionSaved saved, const float* cos_sin, GatheredRows* x,
                 bool attends) const;
  /// Takes memory for the gradient of the output of the q, k, v projection.
  void* take_dqkv(const Context& ctx, Region& region) const;
  /// Computes addends of dx[rows, C] from dy[rows, C], and the gradients of QK-norm's weights and of sinks.
  /// Fills `dqkv`.
  void backward_input(const Context& ctx, const AttentionSaved& saved, const float* cos_sin, void* dqkv,
                      const BranchSum& dx, GatheredRows* dy, DType dy_type) const;
  /// Computes the weight gradients of the output projection, from dy and the core's output.
  void backward_out_weight(const Context& ctx, const AttentionSaved& saved, const void* dy,
                           DType dy_type) const;
  /// Computes the weight gradients of the q, k, v projection, from `dqkv` and the forward's x.
  void backward_qkv_weight(const Context& ctx, const void* dqkv, const void* x) const;
  /// Used in generation: the rows are the next positions of one text; their keys and values are appended to
  /// the cache.
  void forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin, const BranchSum& y,
                      const void* x) const;

  /// Returns rows of x that are saved for backward_qkv_weight.
  SavedRows saved_input(const Context& ctx, int64_t rows) const { return qkv_.saved_input(ctx, rows); }

 private:
  SavedRows inputs(const Context& ctx) const { return {ctx.compress.qkv, ctx.rows(), qkv_width_}; }
  SavedRows raw_inputs(const Context& ctx) const { return {ctx.compress.qkv, ctx.rows(), qk_width_}; }
  AttentionInputs core_inputs(const Context& ctx, const AttentionSaved& saved) const;
  void rotate(const Context& ctx, const float* cos_sin, void* x, int64_t heads, int64_t stride,
              bool inverse) const;
  void project(const Context& ctx, const AttentionSaved& saved, GatheredRows* x) const;
  void project_rows(const Context& part, const AttentionSaved& saved, int64_t first, const void* x) const;

  const ModelConfig& model_;
  int64_t heads_, kv_heads_, head_dim_, qkv_width_, qk_width_;
  Linear qkv_, out_;
  AttentionCore core_;
  std::optional<NormLayer> q_norm_, k_norm_;
};

}  // namespace hawser::nn
