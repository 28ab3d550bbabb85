#include "engine/nn/attention_core.h"

namespace hawser::nn {

AttentionCoreSaved AttentionCore::take_saved(const Context& ctx, Region& region) const {
  AttentionCoreSaved saved;
  saved.o = region.take(ctx.rows() * model_.heads * model_.head_dim * dtype_bytes(ctx.type));
  saved.lse = region.take_as<float>(ctx.rows() * model_.heads);
  return saved;
}

kernels::AttentionShape AttentionCore::shape(const Context& ctx, const AttentionInputs& in) const {
  kernels::AttentionShape s;
  s.type = ctx.type;
  s.round_to_bf16 = ctx.type == DType::kBf16;
  s.batch = ctx.batch, s.seq_q = s.seq_k = s.kv_batch_rows = ctx.seq;
  s.heads = model_.heads, s.kv_heads = model_.kv_heads, s.head_dim = model_.head_dim;
  s.q_stride = in.q_stride, s.kv_stride = in.kv_stride, s.o_stride = model_.heads * model_.head_dim;
  s.window = model_.window[static_cast<size_t>(layer_)];
  s.scale = static_cast<float>(model_.attention_scale);
  s.softcap = static_cast<float>(model_.attention_softcap);
  s.kv_begin = ctx.kv_begin_BT;
  s.documents = ctx.documents;
  s.first_head = ctx.exchange->rank() * model_.heads;
  s.dropout = ctx.dropout(model_.dropout_attention, layer_, kSiteAttention);
  return s;
}

void AttentionCore::run(const Context& ctx, const kernels::AttentionShape& shape,
                        const AttentionCoreSaved& saved, const AttentionInputs& in) const {
  RegionScope scope(*ctx.workspace);
  kernels::AttentionForward a;
  a.s = shape;
  a.q = in.q, a.k = in.k, a.v = in.v;
  a.o = saved.o;
  a.lse = saved.lse;
  a.workspace =
      ctx.workspace->take(ctx.kernels->attention_forward_workspace_bytes(a, ctx.stream->num_workers));
  ctx.kernels->attention_forward(a, *ctx.stream);
}

void AttentionCore::forward(const Context& ctx, const AttentionCoreSaved& saved,
                            const AttentionInputs& in) const {
  run(ctx, shape(ctx, in), saved, in);
}

void AttentionCore::forward_cached(const Context& ctx, const AttentionCoreSaved& saved,
                                   const AttentionInputs& in, int64_t past) const {
  kernels::AttentionShape s = shape(ctx, in);
  s.seq_k = s.kv_batch_rows = past + ctx.rows();
  s.q_offset = past;
  s.kv_begin = nullptr;
  run(ctx, s, saved, in);
}

void AttentionCore::backward(const Context& ctx, const AttentionCoreSaved& saved, const AttentionInputs& in,
                             const AttentionGradients& gradients, const void* d_o) const {
  RegionScope scope(*ctx.workspace);
  kernels::AttentionBackward a;
  a.s = shape(ctx, in);
  a.dq = gradients.dq, a.dk = gradients.dk, a.dv = gradients.dv;
  a.dout = d_o;
  a.o = saved.o;
  a.lse = saved.lse;
  a.q = in.q, a.k = in.k, a.v = in.v;
  a.workspace =
      ctx.workspace->take(ctx.kernels->attention_backward_workspace_bytes(a, ctx.stream->num_workers));
  ctx.kernels->attention_backward(a, *ctx.stream);
}

}  // namespace hawser::nn
