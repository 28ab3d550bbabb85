#include "engine/nn/attention_core.h"

namespace hawser::nn {

AttentionCoreSaved AttentionCore::take_saved(const Context& ctx, Region& region, Region& kept) const {
  AttentionCoreSaved saved;
  saved.o = output(ctx).take(ctx, kept);
  saved.lse = region.take_as<float>(ctx.rows() * model_.heads);
  if (const int64_t elements = ctx.columns->exchanged_elements(shape(ctx, {})); elements > 0)
    saved.exchanged = region.take(elements * dtype_bytes(ctx.type));
  return saved;
}

SavedRows AttentionCore::output(const Context& ctx) const {
  return {ctx.compress.attention, ctx.rows(), model_.heads * model_.value_dim()};
}

kernels::AttentionShape AttentionCore::shape(const Context& ctx, const AttentionInputs& in) const {
  kernels::AttentionShape s;
  s.type = ctx.type;
  s.round_to = ctx.type;
  s.batch = ctx.batch, s.seq_q = s.seq_k = s.kv_batch_rows = ctx.seq;
  s.heads = model_.heads, s.kv_heads = model_.kv_heads, s.head_dim = model_.head_dim;
  s.value_dim = model_.value_dim();
  s.q_stride = in.q_stride, s.kv_stride = in.kv_stride, s.o_stride = model_.heads * s.value_dim;
  s.window = model_.window_of(layer_);
  s.scale = static_cast<float>(model_.attention_scale);
  s.softcap = static_cast<float>(model_.attention_softcap);
  s.kv_begin = ctx.kv_begin_BT;
  s.documents = ctx.documents;
  s.first_head = ctx.exchange->rank() * model_.heads;
  if (ctx.head_scores != nullptr) s.largest = ctx.head_scores + layer_ * ctx.exchange->ranks() * model_.heads;
  s.dropout = ctx.dropout(model_.dropout_attention, layer_, kSiteAttention);
  return s;
}

void AttentionCore::forward(const Context& ctx, const AttentionCoreSaved& saved,
                            const AttentionInputs& in) const {
  ctx.columns->forward(ctx, shape(ctx, in), saved, with_sinks(in));
}

void AttentionCore::forward_cached(const Context& ctx, const AttentionCoreSaved& saved,
                                   const AttentionInputs& in, int64_t past) const {
  kernels::AttentionShape s = shape(ctx, in);
  s.seq_k = s.kv_batch_rows = past + ctx.rows();
  s.q_offset = past;
  s.kv_begin = nullptr;
  ctx.columns->forward(ctx, s, saved, with_sinks(in));
}

void AttentionCore::backward(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in,
                             const AttentionGradients& gradients, const void* d_o) const {
  ctx.columns->backward(ctx, shape(ctx, in), saved, with_sinks(in), gradients, d_o);
}

}  // namespace hawser::nn
