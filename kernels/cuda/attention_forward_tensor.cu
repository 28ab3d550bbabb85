// Attention forward on tensor cores, for products of bf16 values (FlashAttention-2, algorithm 1): one block
// for each 64 queries of a head. It visits key tiles from left to right with an online softmax. Tiles that no
// query of the block sees are skipped.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tensor.h"

namespace hawser::kernels::cuda {
namespace {

/// Keys of a tile: as many as shared memory and registers allow.
template <int kHead>
constexpr int kKeyRows = kHead <= 128 ? 64 : 32;

template <int kKeys, int kHead>
struct Shared {
  NarrowHeads<kOwnRows, kHead> q;
  NarrowHeads<kKeys, kHead> k, v;
  Mask<kOwnRows, kKeys> mask;
};

/// Running maximum and sum of a thread's two rows. The four lanes of a row have the same values.
struct Softmax {
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
};

/// Turns scores into probabilities relative to the largest score so far, applies dropout, and rescales
/// earlier sums.
template <int kKeys, int kHead>
__device__ __forceinline__ void softmax_tile(const AttentionShape& s, WarpSums<kKeys>& scores, int64_t key0,
                                             Softmax& running, WarpSums<kHead>& o,
                                             const Mask<kOwnRows, kKeys>& mask) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = own_row(r);
    float max = running.max[r];
    scores.for_row(r, [&](int column, float& x) {
      x = capped_score(s, x);
      if (!sees(mask, row, key0 + column)) x = -INFINITY;
      max = fmaxf(max, x);
    });
    max = warp_max(max, 4);
    const float base = max == -INFINITY ? 0.0f : max, factor = expf(running.max[r] - base);
    float sum = 0.0f;
    scores.for_row(r, [&](int column, float& x) {
      const float p = expf(x - base);
      sum += p;
      x = p * keep_factor(mask, s, row, column);
    });
    running.sum[r] = fmaf(running.sum[r], factor, warp_sum(sum, 4));
    running.max[r] = max;
    o.for_row(r, [factor](int, float& x) { x *= factor; });
  }
}

/// Merges own row r of `o`, query t, into the result over other keys, whose log-sum-exp was `before`. Returns
/// the log-sum-exp of both.
template <int kHead>
__device__ __forceinline__ float merge_row(const AttentionForward& a, Head head, int64_t t, int r,
                                           WarpSums<kHead>& o, float sum, float lse, float before) {
  float* const row = static_cast<float*>(a.o) + out_at(a.s, head, t);
  const MergeWeights weights(lse, before);
  if (weights.others == 0.0f) {
    store_columns(row, o, r, a.s.v_dim(), weights.here / sum);
  } else {
    merge_columns(row, o, r, a.s.v_dim(), weights.others, weights.here / sum);
  }
  return weights.lse;
}

template <class T, int kHead>
__device__ __forceinline__ void store_row(const AttentionForward& a, Head head, int64_t t, int r,
                                          WarpSums<kHead>& o, float sum, bool nothing) {
  T* const row = static_cast<T*>(a.o) + out_at(a.s, head, t);
  if (nothing) {
    clear_columns(row, o, r, a.s.v_dim());
  } else {
    store_columns(row, o, r, a.s.v_dim(), 1.0f / sum);
  }
}

/// Writes the results of a block's queries, or merges them. Rows of queries that see no key become 0 or, when
/// merging, stay unchanged.
template <int kHead, class T, class AnyMask>
__device__ __forceinline__ void store_results(const AttentionForward& a, Head head, int64_t t0,
                                              WarpSums<kHead>& o, const Softmax& running,
                                              const AnyMask& mask) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t t = t0 + own_row(r);
    const bool exists = t < a.s.seq_q, nothing = mask.sees_nothing(own_row(r));
    const float before = a.merge && exists ? a.lse[lse_at(a.s, head, t)] : -INFINITY;
    if (a.merge) __syncwarp();  // the four lanes of a row must have read lse before one of them writes it
    if (!exists || (nothing && a.merge)) continue;
    const float sum = running.sum[r];
    float lse = nothing ? -INFINITY : running.max[r] + logf(sum);
    if (a.merge) {
      lse = merge_row(a, head, t, r, o, sum, lse, before);
    } else if (a.f32_out) {
      store_row<float>(a, head, t, r, o, sum, nothing);
    } else {
      store_row<T>(a, head, t, r, o, sum, nothing);
    }
    if (lane_of_thread() % 4 == 0) a.lse[lse_at(a.s, head, t)] = lse;
  }
}

template <int kHead, class T>
__global__ void __launch_bounds__(kTensorAttentionThreads)
    attention_forward_tensor_kernel(const AttentionForward a, int64_t tiles, int width, bool wide) {
  constexpr int kKeys = kKeyRows<kHead>;
  auto& shared = shared_memory<Shared<kKeys, kHead>>();
  const AttentionShape& s = a.s;
  const int64_t tile = tiles - 1 - blockIdx.x % tiles;  // starts with the longest rows
  const Head head = {blockIdx.x / tiles / s.heads, blockIdx.x / tiles % s.heads};
  const int64_t t0 = tile * kOwnRows, kv_head = kv_head_of(s, head.h);
  load_ranges(shared.mask, s, head.b, t0);
  load_heads(shared.q, static_cast<const T*>(a.q) + query_at(s, head, t0), s.q_stride, t0, {0, s.seq_q},
             s.head_dim, wide);
  __syncthreads();
  const Rows keys = seen_by_any(shared.mask);
  WarpSums<kHead> o;
  Softmax running;
  for (int64_t key0 = keys.begin / kKeys * kKeys; key0 < keys.end; key0 += kKeys) {
    load_heads(shared.k, static_cast<const T*>(a.k) + key_at(s, head.b, kv_head, key0), s.kv_stride, key0,
               keys, s.head_dim, wide);
    load_heads(shared.v, static_cast<const T*>(a.v) + value_at(s, head.b, kv_head, key0), s.kv_stride, key0,
               keys, s.v_dim(), wide);
    load_kept(shared.mask, s, head, t0, key0);
    __syncthreads();
    if (warp_has_rows(t0, s.seq_q)) {
      WarpSums<kKeys> scores;
      scores.add_scores(shared.q, shared.k, width);
      softmax_tile(s, scores, key0, running, o, shared.mask);
      o.add_products(scores, shared.v);
    }
    __syncthreads();
  }
  store_results<kHead, T>(a, head, t0, o, running, shared.mask);
}

}  // namespace

void attention_forward_tensor(const AttentionForward& args, CudaStream& stream) {
  const AttentionShape& s = args.s;
  for_head_size(stream, "attention_forward", s.larger_dim(), [&](auto size) {
    constexpr int kHead = decltype(size)::kHead;
    using Memory = Shared<kKeyRows<kHead>, kHead>;
    static_assert(sizeof(Memory) <= kSmallestSharedMemory);
    for_type(s.type, [&](auto tag) {
      const int64_t tiles = blocks_for(s.seq_q, kOwnRows);
      launch(stream, "attention_forward",
             {grid(tiles * s.heads * s.batch), kTensorAttentionThreads, sizeof(Memory)},
             attention_forward_tensor_kernel<kHead, type_of<decltype(tag)>>, args, tiles,
             score_width(s.head_dim), reads_wide(s, args.q, args.k, args.v));
    });
  });
}

}  // namespace hawser::kernels::cuda
