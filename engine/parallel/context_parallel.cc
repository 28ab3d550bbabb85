#include "engine/parallel/context_parallel.h"

#include "engine/parallel/gather_attention.h"
#include "engine/parallel/ring_attention.h"
#include "engine/parallel/ulysses_attention.h"

namespace hawser::parallel {

using kernels::AttentionShape;

void ContextParallel::copy(const nn::Context& ctx, const Array& to, const Array& from, int64_t rows,
                           int64_t width) {
  kernels::Convert c;
  c.y = to.data, c.y_type = to.type, c.y_stride = to.stride;
  c.x = from.data, c.x_type = from.type, c.x_stride = from.stride;
  c.rows = rows, c.n = width;
  ctx.kernels->convert(c, *ctx.stream);
}

void* ContextParallel::pack(const nn::Context& ctx, const AttentionShape& s, const nn::AttentionInputs& in) {
  const int64_t keys = key_width(s), both = kv_width(s);
  void* const packed = ctx.take(ctx.rows() * both);
  copy(ctx, {packed, s.type, both}, {const_cast<void*>(in.k), s.type, in.kv_stride}, ctx.rows(), keys);
  copy(ctx, {nn::advance(packed, keys, s.type), s.type, both},
       {const_cast<void*>(in.v), s.type, in.kv_stride}, ctx.rows(), both - keys);
  return packed;
}

void ContextParallel::unpack(const nn::Context& ctx, const AttentionShape& s, const float* dkv,
                             const nn::AttentionGradients& to) {
  const int64_t keys = key_width(s), both = kv_width(s);
  float* const from = const_cast<float*>(dkv);
  copy(ctx, {to.dk, s.type, s.kv_stride}, {from, DType::kF32, both}, ctx.rows(), keys);
  copy(ctx, {to.dv, s.type, s.kv_stride}, {from + keys, DType::kF32, both}, ctx.rows(), both - keys);
}

void ContextParallel::order(const nn::Context& ctx, void* by_column, void* by_rank, DType type, int64_t width,
                            bool to_ranks) const {
  const int64_t ranks = own().ranks, chunk = ctx.seq / 2;
  for (int64_t r = 0; r < ranks; ++r) {
    for (int64_t half = 0; half < 2; ++half) {
      const Array row = {nn::advance(by_column, own().begin(r, half, ctx.seq) * width, type), type,
                         ranks * ctx.seq * width};
      const Array part = {nn::advance(by_rank, (r * ctx.rows() + half * chunk) * width, type), type,
                          ctx.seq * width};
      if (to_ranks)
        copy(ctx, part, row, ctx.batch, chunk * width);
      else
        copy(ctx, row, part, ctx.batch, chunk * width);
    }
  }
}

namespace {

/// Returns the shape for the queries of one chunk (half) of the local columns.
AttentionShape half_of(AttentionShape s, const nn::LocalColumns& own, int64_t half) {
  s.q_batch_rows = s.seq_q;
  s.q_offset = own.begin(own.rank, half, s.seq_q);
  s.seq_q /= 2;
  if (s.kv_begin != nullptr) s.kv_begin += half * s.seq_q;
  s.documents = 0;  // kv_begin may point to columns of other ranks
  return s;
}

}  // namespace

kernels::AttentionForward ContextParallel::of_half(const AttentionShape& s, int64_t half, void* o,
                                                   DType o_type, float* lse, const void* q) const {
  kernels::AttentionForward a;
  a.s = half_of(s, own(), half);
  const int64_t row = half * a.s.seq_q;
  a.q = nn::advance(q, row * s.q_stride, s.type);
  a.o = nn::advance(o, row * s.o_stride, o_type);
  a.lse = lse + row;
  a.f32_out = o_type == DType::kF32;
  return a;
}

kernels::AttentionBackward ContextParallel::of_half(const AttentionShape& s, int64_t half, float* dq,
                                                    int64_t dq_stride, const nn::AttentionCoreSaved& saved,
                                                    const void* q, const void* d_o) const {
  kernels::AttentionBackward a;
  a.s = half_of(s, own(), half);
  const int64_t row = half * a.s.seq_q;
  a.q = nn::advance(q, row * s.q_stride, s.type);
  a.o = nn::advance(saved.o, row * s.o_stride, s.type);
  a.dout = nn::advance(d_o, row * s.o_stride, s.type);
  a.lse = saved.lse + row;
  a.dq = dq + row * dq_stride;
  a.dq_stride = dq_stride;
  a.f32_out = true;
  return a;
}

float* ContextParallel::take_dq(const nn::Context& ctx, const AttentionShape& s,
                                const nn::AttentionGradients& to, int64_t* stride) {
  if (s.type == DType::kF32) {
    *stride = s.q_stride;
    return static_cast<float*>(to.dq);
  }
  *stride = s.heads * s.head_dim;
  return ctx.workspace->take_as<float>(ctx.rows() * *stride);
}

void ContextParallel::finish_dq(const nn::Context& ctx, const AttentionShape& s, const float* dq,
                                const nn::AttentionGradients& to) {
  const int64_t width = s.heads * s.head_dim;
  if (s.type != DType::kF32)
    copy(ctx, {to.dq, s.type, s.q_stride}, {const_cast<float*>(dq), DType::kF32, width}, ctx.rows(), width);
}

std::unique_ptr<nn::ColumnExchange> make_column_exchange(mesh::ContextMode mode, BlockWire* wire) {
  if (wire->ranks() == 1) return std::make_unique<nn::ColumnExchange>();
  switch (mode) {
    case mesh::ContextMode::kGather:
      return std::make_unique<GatherAttention>(wire);
    case mesh::ContextMode::kRing:
      return std::make_unique<RingAttention>(wire);
    case mesh::ContextMode::kUlysses:
      return std::make_unique<UlyssesAttention>(wire);
  }
  return nullptr;
}

}  // namespace hawser::parallel
