#include "engine/parallel/ulysses_attention.h"

#include <algorithm>

namespace hawser::parallel {

using kernels::AttentionShape;

/// The heads of a rank, and the rows of their q, k and v next to each other.
struct UlyssesAttention::Heads {
  int64_t query, key;  ///< number of heads
  int64_t sharing;     ///< ranks that have the same key/value head
  int64_t head_dim, value_dim;

  int64_t q_width() const { return query * head_dim; }
  int64_t o_width() const { return query * value_dim; }
  int64_t k_width() const { return key * head_dim; }
  int64_t v_width() const { return key * value_dim; }
  int64_t width() const { return q_width() + k_width() + v_width(); }
  /// Returns the part of all key/value heads that rank r has.
  int64_t kv_part(int64_t r) const { return r / sharing; }
};

UlyssesAttention::Heads UlyssesAttention::heads_of(const AttentionShape& s) const {
  const int64_t ranks = own().ranks;
  return {s.heads / ranks, std::max<int64_t>(1, s.kv_heads / ranks), std::max<int64_t>(1, ranks / s.kv_heads),
          s.head_dim, s.v_dim()};
}

int64_t UlyssesAttention::exchanged_elements(const AttentionShape& s) const {
  const Heads h = heads_of(s);
  return s.batch * own().ranks * s.seq_q * (h.width() + h.o_width());
}

/// Exchanges sent[rank][B][local columns][width] into all[B][all columns][width] of this rank's heads.
void UlyssesAttention::to_heads(const nn::Context& ctx, void* all, void* sent, DType type,
                                int64_t width) const {
  nn::RegionScope scope(*ctx.workspace);
  const int64_t ranks = own().ranks, elements = ctx.rows() * width;
  void* const received = ctx.workspace->take(ranks * elements * dtype_bytes(type));
  wire_.all_to_all(received, sent, type, elements);
  order(ctx, all, received, type, width, false);
}

/// Reverses to_heads: returns [rank][B][local columns][width], one part of the heads from each rank, in the
/// workspace.
void* UlyssesAttention::to_columns(const nn::Context& ctx, const void* all, DType type, int64_t width) const {
  const int64_t ranks = own().ranks, elements = ctx.rows() * width;
  void* const received = ctx.workspace->take(ranks * elements * dtype_bytes(type));
  nn::RegionScope scope(*ctx.workspace);
  void* const sent = ctx.workspace->take(ranks * elements * dtype_bytes(type));
  order(ctx, const_cast<void*>(all), sent, type, width, true);
  wire_.all_to_all(received, sent, type, elements);
  return received;
}

namespace {

/// Returns the attention shape over all columns and this rank's heads; rows of q, k and v have `width`
/// elements.
template <class Heads>
AttentionShape of_heads(AttentionShape s, const nn::Context& ctx, const nn::LocalColumns& own,
                        const Heads& h) {
  s.seq_q = s.seq_k = s.kv_batch_rows = own.ranks * ctx.seq;
  s.heads = h.query, s.kv_heads = h.key;
  s.q_stride = s.kv_stride = h.width(), s.o_stride = h.o_width();
  s.first_head += own.rank * h.query;
  s.kv_begin = ctx.row_begins;
  return s;
}

}  // namespace

void UlyssesAttention::forward(const nn::Context& ctx, const AttentionShape& s,
                               const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in) const {
  nn::RegionScope scope(*ctx.workspace);
  const Heads h = heads_of(s);
  const int64_t ranks = own().ranks, rows = ctx.rows();
  void* const sent = ctx.take(ranks * rows * h.width());
  for (int64_t r = 0; r < ranks; ++r) {
    void* const part = nn::advance(sent, r * rows * h.width(), s.type);
    const auto put = [&](int64_t at, const void* x, int64_t stride, int64_t begin, int64_t width) {
      copy(ctx, {nn::advance(part, at, s.type), s.type, h.width()},
           {const_cast<void*>(nn::advance(x, begin, s.type)), s.type, stride}, rows, width);
    };
    put(0, in.q, s.q_stride, r * h.q_width(), h.q_width());
    put(h.q_width(), in.k, s.kv_stride, h.kv_part(r) * h.k_width(), h.k_width());
    put(h.q_width() + h.k_width(), in.v, s.kv_stride, h.kv_part(r) * h.v_width(), h.v_width());
  }
  to_heads(ctx, saved.exchanged, sent, s.type, h.width());
  kernels::AttentionForward a;
  a.s = of_heads(s, ctx, own(), h);
  a.q = saved.exchanged;
  a.k = nn::advance(a.q, h.q_width(), s.type);
  a.v = nn::advance(a.k, h.k_width(), s.type);
  a.o = nn::advance(saved.exchanged, ranks * rows * h.width(), s.type);
  a.lse = saved.lse;
  ctx.attend(a);
  in.sinks.join(ctx, a.s, a.o, s.type, a.lse);
  const void* const parts = to_columns(ctx, a.o, s.type, h.o_width());
  for (int64_t r = 0; r < ranks; ++r)
    copy(ctx, {nn::advance(saved.o, r * h.o_width(), s.type), s.type, s.o_stride},
         {const_cast<void*>(nn::advance(parts, r * rows * h.o_width(), s.type)), s.type, h.o_width()}, rows,
         h.o_width());
}

void UlyssesAttention::backward(const nn::Context& ctx, const AttentionShape& s,
                                const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in,
                                const nn::AttentionGradients& gradients, const void* d_o) const {
  nn::RegionScope scope(*ctx.workspace);
  const Heads h = heads_of(s);
  const int64_t ranks = own().ranks, rows = ctx.rows();
  void* const d_all = ctx.take(ranks * rows * h.width());
  kernels::AttentionBackward a;
  {
    nn::RegionScope of_output(*ctx.workspace);
    void* const dout = ctx.take(ranks * rows * h.o_width());
    void* const sent = ctx.take(ranks * rows * h.o_width());
    for (int64_t r = 0; r < ranks; ++r)
      copy(ctx, {nn::advance(sent, r * rows * h.o_width(), s.type), s.type, h.o_width()},
           {const_cast<void*>(nn::advance(d_o, r * h.o_width(), s.type)), s.type, s.o_stride}, rows,
           h.o_width());
    to_heads(ctx, dout, sent, s.type, h.o_width());
    a.s = of_heads(s, ctx, own(), h);
    a.q = saved.exchanged;
    a.k = nn::advance(a.q, h.q_width(), s.type);
    a.v = nn::advance(a.k, h.k_width(), s.type);
    a.o = nn::advance(a.q, ranks * rows * h.width(), s.type);
    a.lse = saved.lse;
    a.dout = dout;
    a.dq = d_all;
    a.dk = nn::advance(a.dq, h.q_width(), s.type);
    a.dv = nn::advance(a.dk, h.k_width(), s.type);
    ctx.attend(a);
    in.sinks.backward(ctx, a.s, a.o, a.lse, a.dout);
  }
  const void* const parts = to_columns(ctx, d_all, s.type, h.width());
  for (int64_t r = 0; r < ranks; ++r)
    copy(ctx, {nn::advance(gradients.dq, r * h.q_width(), s.type), s.type, s.q_stride},
         {const_cast<void*>(nn::advance(parts, r * rows * h.width(), s.type)), s.type, h.width()}, rows,
         h.q_width());
  sum_shared(ctx, s, h, h.k_width(), gradients.dk, nn::advance(parts, h.q_width(), s.type));
  sum_shared(ctx, s, h, h.v_width(), gradients.dv, nn::advance(parts, h.q_width() + h.k_width(), s.type));
}

/// Sums gradients of keys or values, `width` elements of a rank's heads, in f32 over the ranks that shared
/// each head.
void UlyssesAttention::sum_shared(const nn::Context& ctx, const AttentionShape& s, const Heads& h,
                                  int64_t width, void* to, const void* from) const {
  const int64_t rows = ctx.rows();
  const auto part = [&](int64_t r) {
    return Array{const_cast<void*>(nn::advance(from, r * rows * h.width(), s.type)), s.type, h.width()};
  };
  nn::RegionScope scope(*ctx.workspace);
  float* const sum = h.sharing == 1 ? nullptr : ctx.workspace->take_as<float>(rows * width);
  float* const addend = h.sharing == 1 ? nullptr : ctx.workspace->take_as<float>(rows * width);
  for (int64_t r = 0; r < own().ranks; r += h.sharing) {
    const Array out = {nn::advance(to, h.kv_part(r) * width, s.type), s.type, s.kv_stride};
    if (h.sharing == 1) {
      copy(ctx, out, part(r), rows, width);
      continue;
    }
    copy(ctx, {sum, DType::kF32, width}, part(r), rows, width);
    for (int64_t i = 1; i < h.sharing; ++i) {
      copy(ctx, {addend, DType::kF32, width}, part(r + i), rows, width);
      ctx.kernels->add({sum, sum, addend, rows * width}, *ctx.stream);
    }
    copy(ctx, out, {sum, DType::kF32, width}, rows, width);
  }
}

}  // namespace hawser::parallel
