// Latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1; DeepSeek-V3, arXiv 2412.19437): keys and
// values of all heads are computed from one compressed row of each token, and all heads share the rotated
// part of their keys.
//
//   [a_q, a_kv, r] = x A                 (q_a and kv_a; without compressed queries only [a_kv, r])
//   c_kv = norm(a_kv);  [k_own, v] = c_kv B_kv;  k = [k_own, rotated r] of each head
//   c_q = norm(a_q);    q = c_q B_q              (or q = x Q), of which each head's end is rotated
//   y = core(q, k, v) O
//
// A tensor-parallel rank has its own heads of B_q, B_kv and O, and computes A and the norms in full. In
// backward, its gradients of a_q, a_kv and r cover only its own heads. All operations below them are linear,
// so latent attention adds no exchange: the gradients of A and of the norms are summed over the ranks
// together with other gradients (nn::GradientCoverage::kOwnHeads), and dx by a BranchSum.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/nn/attention.h"

namespace hawser::nn {

/// Activations that forward saves for backward. Per row, with Q and R the ranks of queries and of keys and
/// values, P = rope_dim, D and V the sizes of a head's keys and values: e (Q + R + P) bytes, 4 (1 or 2) bytes
/// of statistics, e H (2 D + V) unless the core keeps them in its own form, and the activations that the core
/// saves.
struct LatentSaved {
  void* down = nullptr;  ///< [rows, Q + R + P]: a_q, a_kv, and r, rotated
  NormSaved q_norm, kv_norm;
  void* q = nullptr;   ///< [rows, H D], or null
  void* kv = nullptr;  ///< [rows, H (D + V)]: keys, then values; or null
  AttentionCoreSaved core;
};

/// Intermediates from which backward computes the gradients of the weights. Per row e (H (2 D - P + V) + 2 Q
/// + 2 R + P). If a ring carries compressed rows, e (H (D - P + V) + R) less: each remote row adds to the
/// gradient of B_kv, so the input pass computes that gradient.
struct LatentMade {
  void* dq = nullptr;      ///< [rows, H D]
  void* d_up = nullptr;    ///< [rows, H (D - P + V)], gradient of B_kv's output
  void* d_down = nullptr;  ///< [rows, Q + R + P]
  void* c_q = nullptr;     ///< [rows, Q], recomputed
  void* c_kv = nullptr;    ///< [rows, R], recomputed
};

/// True if a ring of context-parallel ranks carries compressed rows and shared keys instead of keys and
/// values. The rule compares, for one row, one hop and both passes, additional FLOPs with bytes saved. The
/// FLOPs recompute keys and values (twice) and compute the gradients of the compressed row and of B_kv. The
/// bytes are those of H (D + V) - (R + P) elements, twice with e bytes and once with 4. The rule assumes that
/// a processor computes kFlopsPerByte while its link carries a byte: GPUs do 800 between neighbours and more
/// between nodes.
inline bool sends_compressed(const ModelConfig& local, int64_t element_bytes) {
  constexpr int64_t kFlopsPerByte = 512;
  const LatentConfig& l = local.latent;
  const int64_t unsent = local.heads * (local.head_dim + l.value_dim) - l.kv_rank - l.rope_dim;
  const int64_t flops = 4 * 2 * l.kv_rank * local.heads * (local.head_dim - l.rope_dim + l.value_dim);
  return local.is_latent() && unsent > 0 && flops <= kFlopsPerByte * unsent * (2 * element_bytes + 4);
}

class LatentAttention final : private KeySource {
 public:
  /// `model` must outlive the module. The calls have the same meaning as those of Attention.
  LatentAttention(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  LatentSaved take_saved(const Context& ctx, Region& inputs, Region& core, Region& kept) const;
  DType y_type(const Context& ctx) const { return out_.writes_once() ? ctx.branch_type() : DType::kF32; }
  /// Without compressed queries, two projections add to dx, so it is f32.
  DType dx_type(const Context& ctx) const {
    return q_norm_ && down_.writes_once() ? ctx.branch_type() : DType::kF32;
  }
  void forward(const Context& ctx, const LatentSaved& saved, const float* cos_sin, const BranchSum& y,
               GatheredRows* x) const;
  void recompute(const Context& ctx, LatentSaved saved, const float* cos_sin, GatheredRows* x,
                 bool attends) const;
  LatentMade take_weight_pass_inputs(const Context& ctx, Region& region) const;
  void backward_input(const Context& ctx, const LatentSaved& saved, const float* cos_sin,
                      const LatentMade& made, const BranchSum& dx, GatheredRows* dy, DType dy_type) const;
  void backward_out_weight(const Context& ctx, const LatentSaved& saved, const void* dy, DType dy_type) const;
  /// Computes the weight gradients of all projections except the output's.
  void backward_in_weight(const Context& ctx, const LatentMade& made, const void* x) const;
  /// The cache has compressed rows, from which keys and values of all positions are recomputed.
  void forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin, const BranchSum& y,
                      const void* x) const;

 private:
  SavedRows saved_rows(const Context& ctx, int64_t width) const {
    return {ctx.compress.qkv, ctx.rows(), width};
  }
  /// Returns `saved` with its arrays as `move` gives them: SavedRows::full gives those that forward fills,
  /// SavedRows::decode those that backward reads. They are in the workspace if they are saved as
  /// records.
  using Move = void* (SavedRows::*)(const Context&, void*) const;
  LatentSaved moved(const Context& ctx, const LatentSaved& saved, Move move) const;
  bool in_ring(const Context& ctx) const {
    return ctx.columns->is_ring() && sends_compressed(model_, dtype_bytes(ctx.type));
  }
  int64_t width() const override { return kv_rank_ + rope_dim_; }
  void make(const Context& ctx, void* kv, const void* source, int64_t rows) const override;
  void backward(const Context& ctx, float* d_source, const void* source, const float* dkv, int64_t rows,
                bool adds, bool first) const override;
  void backward_ring(const Context& ctx, const LatentSaved& saved, const float* cos_sin,
                     const LatentMade& made, const void* d_o) const;
  void rotate(const Context& ctx, const float* cos_sin, void* x, int64_t heads, int64_t stride,
              bool inverse) const;
  void project_queries(const Context& ctx, const LatentSaved& saved, const float* cos_sin, void* q,
                       const void* x) const;
  void make_keys(const Context& ctx, void* kv, const void* c_kv, const void* shared, int64_t shared_stride,
                 int64_t rows) const;
  void compress_queries(const Context& ctx, const LatentSaved& saved, void* c_q) const;
  void compress_keys(const Context& ctx, const LatentSaved& saved, void* c_kv) const;
  void backward_core(const Context& ctx, const LatentSaved& saved, const float* cos_sin,
                     const LatentMade& made, GatheredRows* dy, DType dy_type) const;
  kernels::LatentShape shape(const Context& ctx, int64_t rows, int64_t shared_stride) const;
  AttentionInputs core_inputs(const Context& ctx, const void* q, const void* kv) const;
  AttentionInputs ring_inputs(const Context& ctx, const LatentSaved& saved) const;

  const ModelConfig& model_;
  const int64_t q_rank_, kv_rank_, rope_dim_;
  const int64_t own_;  ///< elements of a head's key that are not shared with other heads
  const int64_t q_width_, key_width_, kv_width_, down_width_;
  Linear down_, q_, kv_up_, out_;
  AttentionCore core_;
  std::optional<NormLayer> q_norm_;
  NormLayer kv_norm_;
};

}  // namespace hawser::nn
