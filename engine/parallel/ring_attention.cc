#include "engine/parallel/ring_attention.h"

#include <span>
#include <utility>

namespace hawser::parallel {

using kernels::AttentionShape;

/// The keys and values that this rank holds now, and the memory into which the next ones arrive.
struct RingAttention::Travelling {
  void *here, *next;
  int64_t elements;

  void go_on(BlockWire& wire, DType type) {
    wire.shift(next, here, type, elements);
    std::swap(here, next);
  }
};

/// A half of the own queries and a half of the keys that are here.
struct RingAttention::Pair {
  int64_t queries, keys;
};

namespace {

/// Points `args` to one half of the rows of `kv`, whose columns `owner` has.
template <class Args>
void set_keys(Args* args, const nn::LocalColumns& own, int64_t owner, int64_t half, const void* kv) {
  AttentionShape& s = args->s;
  const int64_t keys = s.kv_heads * s.head_dim, both = keys + s.kv_heads * s.v_dim();
  const int64_t chunk = s.seq_q, row = half * chunk * both;
  s.k_offset = own.begin(owner, half, 2 * chunk);
  s.seq_k = chunk, s.kv_batch_rows = 2 * chunk, s.kv_stride = both;
  args->k = nn::advance(kv, row, s.type);
  args->v = nn::advance(kv, row + keys, s.type);
}

}  // namespace

void RingAttention::forward(const nn::Context& ctx, const AttentionShape& s,
                            const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in) const {
  nn::RegionScope scope(*ctx.workspace);
  const int64_t elements = ctx.rows() * (in.maker ? in.maker->width() : kv_width(s));
  const int64_t out = ctx.rows() * s.heads * s.v_dim();
  const bool narrow = s.type != DType::kF32;
  void* const o = narrow ? ctx.workspace->take_as<float>(out) : saved.o;
  void* const made = pack(ctx, s, in);
  Travelling kv{in.maker ? in.source : made, ctx.take(elements), elements};
  const auto attend = [&](int64_t owner, Pair pair, bool merge) {
    kernels::AttentionForward a = of_half(s, pair.queries, o, DType::kF32, saved.lse, in.q);
    set_keys(&a, own(), owner, pair.keys, in.maker ? made : kv.here);
    a.merge = merge;
    ctx.attend(a);
  };
  attend(own().rank, {0, 0}, false);
  attend(own().rank, {1, 1}, false);
  attend(own().rank, {1, 0}, true);
  for (int64_t hop = 1; hop < own().ranks; ++hop) {
    kv.go_on(wire_, s.type);
    if (in.maker) in.maker->make(ctx, made, kv.here, ctx.rows());
    const int64_t owner = owner_at(hop);
    attend(owner, {1, 0}, true);
    attend(owner, owner < own().rank ? Pair{0, 0} : Pair{1, 1}, true);
  }
  if (narrow) copy(ctx, {saved.o, s.type, out}, {o, DType::kF32, out}, 1, out);
}

void RingAttention::backward(const nn::Context& ctx, const AttentionShape& s,
                             const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in,
                             const nn::AttentionGradients& gradients, const void* d_o) const {
  nn::RegionScope scope(*ctx.workspace);
  const int64_t rows = ctx.rows(), elements = rows * (in.maker ? in.maker->width() : kv_width(s));
  int64_t dq_stride = 0;
  float* const dq = take_dq(ctx, s, gradients, &dq_stride);
  auto* const mine = in.maker ? gradients.d_source : ctx.workspace->take_as<float>(elements);
  auto* const d_made = in.maker ? ctx.workspace->take_as<float>(rows * kv_width(s)) : nullptr;
  void* const made = pack(ctx, s, in);
  Travelling kv{in.maker ? in.source : made, ctx.take(elements), elements};
  Travelling dkv{ctx.workspace->take_as<float>(elements), ctx.workspace->take_as<float>(elements), elements};
  /// The first that meets a half of keys or queries overwrites its gradient.
  const auto attend = [&](int64_t owner, Pair pair, void* to, bool add_q, bool add_kv) {
    kernels::AttentionBackward a = of_half(s, pair.queries, dq, dq_stride, saved, in.q, d_o);
    set_keys(&a, own(), owner, pair.keys, in.maker ? made : kv.here);
    a.dk = static_cast<float*>(to) + pair.keys * a.s.seq_k * a.s.kv_stride;
    a.dv = static_cast<float*>(a.dk) + key_width(s);
    a.accumulate_q = add_q, a.accumulate_kv = add_kv;
    ctx.attend(a);
  };
  void* to = in.maker ? d_made : mine;
  attend(own().rank, {0, 0}, to, false, false);
  attend(own().rank, {1, 1}, to, false, false);
  attend(own().rank, {1, 0}, to, true, true);
  if (in.maker) in.maker->backward(ctx, mine, kv.here, d_made, rows, false, true);
  for (int64_t hop = 1; hop < own().ranks; ++hop) {
    kv.go_on(wire_, s.type);
    if (in.maker) in.maker->make(ctx, made, kv.here, rows);
    const bool begun = hop > 1, adds = begun && !in.maker;
    if (begun) dkv.go_on(wire_, DType::kF32);
    const int64_t owner = owner_at(hop);
    to = in.maker ? d_made : dkv.here;
    attend(owner, {1, 0}, to, true, adds);
    if (owner < own().rank) {
      attend(owner, {0, 0}, to, true, true);
      if (!adds) attend(owner, {0, 1}, to, true, false);  // sees none of these keys: writes zeros
    } else {
      attend(owner, {1, 1}, to, true, adds);
    }
    if (in.maker) in.maker->backward(ctx, static_cast<float*>(dkv.here), kv.here, d_made, rows, begun, false);
  }
  dkv.go_on(wire_, DType::kF32);
  ctx.kernels->add({mine, static_cast<float*>(dkv.here), mine, elements}, *ctx.stream);
  finish_dq(ctx, s, dq, gradients);
  if (!in.maker) unpack(ctx, s, mine, gradients);
}

}  // namespace hawser::parallel
