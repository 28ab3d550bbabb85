#include "engine/nn/self_attention.h"

namespace hawser::nn {

SelfAttention::SelfAttention(const ParameterTable& table, const ModelConfig& model, int64_t layer) {
  if (model.is_latent()) {
    latent_.emplace(table, model, layer);
  } else {
    plain_.emplace(table, model, layer);
  }
}

SelfAttentionSaved SelfAttention::take_saved(const Context& ctx, Region& inputs, Region& core,
                                             Region& kept) const {
  if (latent_) return {{}, latent_->take_saved(ctx, inputs, core, kept)};
  return {plain_->take_saved(ctx, inputs, core, kept), {}};
}

void SelfAttention::forward(const Context& ctx, const SelfAttentionSaved& saved, const float* cos_sin,
                            const BranchSum& y, GatheredRows* x) const {
  if (latent_) return latent_->forward(ctx, saved.latent, cos_sin, y, x);
  plain_->forward(ctx, saved.plain, cos_sin, y, x);
}

void SelfAttention::recompute(const Context& ctx, const SelfAttentionSaved& saved, const float* cos_sin,
                              GatheredRows* x, bool attends) const {
  if (latent_) return latent_->recompute(ctx, saved.latent, cos_sin, x, attends);
  plain_->recompute(ctx, saved.plain, cos_sin, x, attends);
}

SelfAttentionMade SelfAttention::take_weight_pass_inputs(const Context& ctx, Region& region) const {
  if (latent_) return {nullptr, latent_->take_weight_pass_inputs(ctx, region)};
  return {plain_->take_dqkv(ctx, region), {}};
}

void SelfAttention::backward_input(const Context& ctx, const SelfAttentionSaved& saved, const float* cos_sin,
                                   const SelfAttentionMade& made, const BranchSum& dx, GatheredRows* dy,
                                   DType dy_type) const {
  if (latent_) return latent_->backward_input(ctx, saved.latent, cos_sin, made.latent, dx, dy, dy_type);
  plain_->backward_input(ctx, saved.plain, cos_sin, made.dqkv, dx, dy, dy_type);
}

void SelfAttention::backward_out_weight(const Context& ctx, const SelfAttentionSaved& saved, const void* dy,
                                        DType dy_type) const {
  if (latent_) return latent_->backward_out_weight(ctx, saved.latent, dy, dy_type);
  plain_->backward_out_weight(ctx, saved.plain, dy, dy_type);
}

void SelfAttention::backward_in_weight(const Context& ctx, const SelfAttentionMade& made,
                                       const void* x) const {
  if (latent_) return latent_->backward_in_weight(ctx, made.latent, x);
  plain_->backward_qkv_weight(ctx, made.dqkv, x);
}

void SelfAttention::forward_cached(const Context& ctx, const KvCache& cache, const float* cos_sin,
                                   const BranchSum& y, const void* x) const {
  if (latent_) return latent_->forward_cached(ctx, cache, cos_sin, y, x);
  plain_->forward_cached(ctx, cache, cos_sin, y, x);
}

}  // namespace hawser::nn
