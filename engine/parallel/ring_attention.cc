#include "engine/parallel/ring_attention.h"

#include "engine/parallel/ring_chunks.h"

namespace hawser::parallel {

using kernels::AttentionShape;

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

// On the stack, because a step allocates nothing.
template <typename Use>
void RingAttention::with_chunks(const Call& call, const Use& use) const {
  if (call.in.maker != nullptr) {
    SourceChunks chunks(call);
    use(static_cast<Chunks&>(chunks));
  } else {
    PlainChunks chunks(call);
    use(static_cast<Chunks&>(chunks));
  }
}

void RingAttention::forward(const nn::Context& ctx, const AttentionShape& s,
                            const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in) const {
  nn::RegionScope scope(*ctx.workspace);
  const int64_t out = ctx.rows() * s.heads * s.v_dim();
  const bool narrow = s.type != DType::kF32;
  void* const o = narrow ? ctx.workspace->take_as<float>(out) : saved.o;
  with_chunks({ctx, s, in, nullptr, wire_}, [&](Chunks& chunks) {
    const auto attend = [&](int64_t owner, Pair pair, bool merge) {
      kernels::AttentionForward a = of_half(s, pair.queries, o, DType::kF32, saved.lse, in.q);
      set_keys(&a, own(), owner, pair.keys, chunks.keys());
      a.merge = merge;
      ctx.attend(a);
    };
    attend(own().rank, {0, 0}, false);
    attend(own().rank, {1, 1}, false);
    attend(own().rank, {1, 0}, true);
    for (int64_t hop = 1; hop < own().ranks; ++hop) {
      chunks.pass_on();
      const int64_t owner = owner_at(hop);
      attend(owner, {1, 0}, true);
      attend(owner, owner < own().rank ? Pair{0, 0} : Pair{1, 1}, true);
    }
  });
  in.sinks.join(ctx, s, o, DType::kF32, saved.lse);
  if (narrow) copy(ctx, {saved.o, s.type, out}, {o, DType::kF32, out}, 1, out);
}

void RingAttention::backward(const nn::Context& ctx, const AttentionShape& s,
                             const nn::AttentionCoreSaved& saved, const nn::AttentionInputs& in,
                             const nn::AttentionGradients& gradients, const void* d_o) const {
  nn::RegionScope scope(*ctx.workspace);
  int64_t dq_stride = 0;
  float* const dq = take_dq(ctx, s, gradients, &dq_stride);
  with_chunks({ctx, s, in, &gradients, wire_}, [&](Chunks& chunks) {
    /// The first that meets a half of keys or queries overwrites its gradient.
    const auto attend = [&](int64_t owner, Pair pair, bool add_q, bool add_kv) {
      kernels::AttentionBackward a = of_half(s, pair.queries, dq, dq_stride, saved, in.q, d_o);
      set_keys(&a, own(), owner, pair.keys, chunks.keys());
      a.dk = chunks.gradients() + pair.keys * a.s.seq_k * a.s.kv_stride;
      a.dv = static_cast<float*>(a.dk) + key_width(s);
      a.accumulate_q = add_q, a.accumulate_kv = add_kv;
      ctx.attend(a);
    };
    attend(own().rank, {0, 0}, false, false);
    attend(own().rank, {1, 1}, false, false);
    attend(own().rank, {1, 0}, true, true);
    chunks.finish();
    for (int64_t hop = 1; hop < own().ranks; ++hop) {
      chunks.pass_on();
      const bool adds = chunks.adds();
      const int64_t owner = owner_at(hop);
      attend(owner, {1, 0}, true, adds);
      if (owner < own().rank) {
        attend(owner, {0, 0}, true, true);
        if (!adds) attend(owner, {0, 1}, true, false);  // sees none of these keys: writes zeros
      } else {
        attend(owner, {1, 1}, true, adds);
      }
      chunks.finish();
    }
    chunks.return_gradients();
  });
  finish_dq(ctx, s, dq, gradients);
  in.sinks.backward(ctx, s, saved.o, saved.lse, d_o);
}

}  // namespace hawser::parallel
