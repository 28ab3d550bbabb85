// SelfAttention: the first branch of a block, with keys and values from projections (attention.h) or from
// latent attention (latent_attention.h). The calls have the same meaning as theirs.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/nn/attention.h"
#include "engine/nn/latent_attention.h"

namespace hawser::nn {

struct SelfAttentionSaved {
  AttentionSaved plain;
  LatentSaved latent;
};

/// Intermediates from which backward computes the gradients of the projections before the core.
struct SelfAttentionMade {
  void* dqkv = nullptr;
  LatentMade latent;
};

class SelfAttention {
 public:
  SelfAttention(const ParameterTable& table, const ModelConfig& model, int64_t layer);

  SelfAttentionSaved take_saved(const Context& ctx, Region& inputs, Region& core, Region& kept) const;
  DType y_type(const Context& ctx) const { return latent_ ? latent_->y_type(ctx) : plain_->y_type(ctx); }
  DType dx_type(const Context& ctx) const { return latent_ ? latent_->dx_type(ctx) : plain_->dx_type(ctx); }
  void forward(const Context& ctx, const SelfAttentionSaved& saved, const float* cos_sin, const BranchSum& y,
               GatheredRows* x) const;
  void recompute(const Context& ctx, const SelfAttentionSaved& saved, const float* cos_sin, GatheredRows* x,
                 bool attends) const;
  SelfAttentionMade take_weight_pass_inputs(const Context& ctx, Region& region) const;
  void backward_input(const Context& ctx, const SelfAttentionSaved& saved, const float* cos_sin,
                      const SelfAttentionMade& made, const BranchSum& dx, GatheredRows* dy,
                      DType dy_type) const;
  void backward_out_weight(const Context& ctx, const SelfAttentionSaved& saved, const void* dy,
                           DType dy_type) const;
  void backward_in_weight(const Context& ctx, const SelfAttentionMade& made, const void* x) const;
  /// Returns rows of x[.., C] that are saved for backward_in_weight. Several products of latent attention
  /// read them, as operands of their own.
  SavedRows saved_input(const Context& ctx, int64_t rows, int64_t width) const {
    return plain_ ? plain_->saved_input(ctx, rows) : SavedRows{false, rows, width};
  }
  void forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin, const BranchSum& y,
                      const void* x) const;

 private:
  std::optional<Attention> plain_;
  std::optional<LatentAttention> latent_;
};

}  // namespace hawser::nn
