#include "engine/parallel/gather_attention.h"

namespace hawser::parallel {

using kernels::AttentionShape;

/// Gathers keys and values of all columns: [B, all columns, K (D + V)].
void* GatherAttention::gather(const nn::Context& ctx, const AttentionShape& s,
                              const nn::AttentionInputs& in) const {
  const int64_t width = kv_width(s), elements = ctx.rows() * width;
  void* const all = ctx.take(own().ranks * elements);
  nn::RegionScope scope(*ctx.workspace);
  const void* const mine = pack(ctx, s, in);
  void* const by_rank = ctx.take(own().ranks * elements);
  wire_.all_gather(by_rank, mine, s.type, elements);
  order(ctx, all, by_rank, s.type, width, false);
  return all;
}

void GatherAttention::forward(const nn::Context& ctx, const AttentionShape& s,
                              const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in) const {
  nn::RegionScope scope(*ctx.workspace);
  const int64_t width = kv_width(s);
  const void* const all = gather(ctx, s, in);
  for (int64_t half = 0; half < 2; ++half) {
    kernels::AttentionForward a = of_half(s, half, saved.o, s.type, saved.lse, in.q);
    a.s.kv_stride = width, a.s.kv_batch_rows = own().ranks * ctx.seq;
    a.s.seq_k = a.s.q_offset + a.s.seq_q;
    a.k = all, a.v = nn::advance(all, key_width(s), s.type);
    ctx.attend(a);
  }
  in.sinks.join(ctx, s, saved.o, s.type, saved.lse);
}

void GatherAttention::backward(const nn::Context& ctx, const AttentionShape& s,
                               const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in,
                               const nn::AttentionGradients& gradients, const void* d_o) const {
  nn::RegionScope scope(*ctx.workspace);
  const int64_t width = kv_width(s), elements = ctx.rows() * width;
  int64_t dq_stride = 0;
  float* const dq = take_dq(ctx, s, gradients, &dq_stride);
  auto* const mine = ctx.workspace->take_as<float>(elements);
  auto* const dkv = ctx.workspace->take_as<float>(own().ranks * elements);
  {
    nn::RegionScope of_keys(*ctx.workspace);
    const void* const all = gather(ctx, s, in);
    for (int64_t half = 1; half >= 0; --half) {  // the second chunk sees more keys, so it overwrites
      kernels::AttentionBackward a = of_half(s, half, dq, dq_stride, saved, in.q, d_o);
      a.s.kv_stride = width, a.s.kv_batch_rows = own().ranks * ctx.seq;
      a.s.seq_k = half == 1 ? own().ranks * ctx.seq : a.s.q_offset + a.s.seq_q;
      a.k = all, a.v = nn::advance(all, key_width(s), s.type);
      a.dk = dkv, a.dv = dkv + key_width(s);
      a.accumulate_kv = half == 0;
      ctx.attend(a);
    }
  }
  finish_dq(ctx, s, dq, gradients);
  in.sinks.backward(ctx, s, saved.o, saved.lse, d_o);
  auto* const by_rank = ctx.workspace->take_as<float>(own().ranks * elements);
  order(ctx, dkv, by_rank, DType::kF32, width, true);
  wire_.reduce_scatter(mine, by_rank, elements);
  unpack(ctx, s, mine, gradients);
}

}  // namespace hawser::parallel
