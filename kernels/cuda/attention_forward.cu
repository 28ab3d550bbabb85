// Attention forward in f32 (FlashAttention-2, algorithm 1): one block for each tile of queries of a head. It
// visits key tiles from left to right with an online softmax. Tiles that no query of the block sees are
// skipped.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace hawser::kernels::cuda {
namespace {

template <int kTile, int kHead>
struct Shared {
  HeadTile<kTile, kHead> q, kv;  // keys, then values
  ScoreTile<kTile> p;
  Mask<kTile> mask;
};

/// Tiles are as large as shared memory allows.
template <int kHead>
constexpr int kForwardTile = kHead <= 128 ? 64 : 32;

/// Running maximum and sum of a thread's rows, the same on the sixteen threads of a row.
template <int kEach>
struct Softmax {
  float max[kEach], sum[kEach];
};

/// Caps, masks and exponentiates scores, updates the running softmax, writes probabilities after dropout to
/// shared memory, and rescales earlier sums to the new maximum.
template <int kTile, int kHead>
__device__ __forceinline__ void softmax_tile(const AttentionShape& s,
                                             float (&score)[kTile / kSide][kTile / kSide], int64_t key0,
                                             Softmax<kTile / kSide>& running, HeadSums<kTile, kHead>& o,
                                             Shared<kTile, kHead>& shared) {
  constexpr int kEach = kTile / kSide;
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const int row = thread_y() + r * kSide;
    float max = running.max[r];
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const float x = capped_score(s, score[r][c]);
      score[r][c] = sees(shared.mask, row, key0 + thread_x() + c * kSide) ? x : -INFINITY;
      max = fmaxf(max, score[r][c]);
    }
    max = warp_max(max, kSide);
    const float base = max == -INFINITY ? 0.0f : max, factor = expf(running.max[r] - base);
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const int column = thread_x() + c * kSide;
      const float p = expf(score[r][c] - base);
      sum += p;
      shared.p.row[row][column] = p * keep_factor(shared.mask, s, row, column);
    }
    running.sum[r] = fmaf(running.sum[r], factor, warp_sum(sum, kSide));
    running.max[r] = max;
#pragma unroll
    for (auto& vector : o.sum[r]) {
#pragma unroll
      for (float& x : vector) x *= factor;
    }
  }
}

/// Merges row r of `o`, query t, into the result over other keys, whose log-sum-exp was `before`. Returns the
/// log-sum-exp of both.
template <int kTile, int kHead>
__device__ __forceinline__ float merge_row(const AttentionForward& a, Head head, int64_t t, int r,
                                           const HeadSums<kTile, kHead>& o, float sum, float lse,
                                           float before) {
  float* const row = static_cast<float*>(a.o) + out_at(a.s, head, t);
  const MergeWeights weights(lse, before);
  if (weights.others == 0.0f) {
    o.store_row(row, r, a.s.v_dim(), weights.here / sum);
  } else {
    o.merge_row(row, r, a.s.v_dim(), weights.others, weights.here / sum);
  }
  return weights.lse;
}

/// Writes row r of `o`, query t. If `nothing` is true, the query has seen no key, and the row becomes 0.
template <int kTile, int kHead>
__device__ __forceinline__ void store_row(const AttentionForward& a, Head head, int64_t t, int r,
                                          const HeadSums<kTile, kHead>& o, float sum, bool nothing) {
  float* const row = static_cast<float*>(a.o) + out_at(a.s, head, t);
  if (nothing) {
    o.clear_row(row, r, a.s.v_dim());
  } else {
    o.store_row(row, r, a.s.v_dim(), 1.0f / sum);
  }
}

/// Writes the results of a tile's queries, or merges them. Rows of queries that see no key become 0 or, when
/// merging, stay unchanged.
template <int kTile, int kHead>
__device__ __forceinline__ void store_results(const AttentionForward& a, Head head, int64_t t0,
                                              const HeadSums<kTile, kHead>& o,
                                              const Softmax<kTile / kSide>& running,
                                              const Mask<kTile>& mask) {
  const AttentionShape& s = a.s;
  float before[kTile / kSide];
#pragma unroll
  for (int r = 0; r < kTile / kSide; ++r) {
    const int64_t t = t0 + thread_y() + r * kSide;
    before[r] = a.merge && t < s.seq_q ? a.lse[lse_at(s, head, t)] : -INFINITY;
  }
  if (a.merge) __syncthreads();  // all threads of a row must have read lse before one of them writes it
#pragma unroll
  for (int r = 0; r < kTile / kSide; ++r) {
    const int64_t t = t0 + thread_y() + r * kSide;
    if (t >= s.seq_q) continue;
    const bool nothing = mask.sees_nothing(thread_y() + r * kSide);
    if (nothing && a.merge) continue;
    const float sum = running.sum[r];
    float lse = nothing ? -INFINITY : running.max[r] + logf(sum);
    if (a.merge) {
      lse = merge_row(a, head, t, r, o, sum, lse, before[r]);
    } else {
      store_row(a, head, t, r, o, sum, nothing);
    }
    if (thread_x() == 0) a.lse[lse_at(s, head, t)] = lse;
  }
}

template <int kTile, int kHead>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_forward_kernel(const AttentionForward a, int64_t tiles, int width, bool wide) {
  auto& shared = shared_memory<Shared<kTile, kHead>>();
  const AttentionShape& s = a.s;
  const int64_t tile = tiles - 1 - blockIdx.x % tiles;  // starts with the longest rows
  const Head head = {blockIdx.x / tiles / s.heads, blockIdx.x / tiles % s.heads};
  const int64_t t0 = tile * kTile, kv_head = kv_head_of(s, head.h);
  load_ranges(shared.mask, s, head.b, t0);
  load_head(shared.q, static_cast<const float*>(a.q) + query_at(s, head, t0), s.q_stride, t0, {0, s.seq_q},
            s.head_dim, wide);
  __syncthreads();
  const Rows keys = seen_by_any(shared.mask);
  HeadSums<kTile, kHead> o;
  Softmax<kTile / kSide> running;
  for (int r = 0; r < kTile / kSide; ++r) {
    running.max[r] = -INFINITY;
    running.sum[r] = 0.0f;
  }
  for (int64_t key0 = keys.begin / kTile * kTile; key0 < keys.end; key0 += kTile) {
    load_head(shared.kv, static_cast<const float*>(a.k) + key_at(s, head.b, kv_head, key0), s.kv_stride, key0,
              keys, s.head_dim, wide);
    load_kept(shared.mask, s, head, t0, key0);
    __syncthreads();
    float score[kTile / kSide][kTile / kSide];
    multiply_heads(score, shared.q, shared.kv, width);
    softmax_tile(s, score, key0, running, o, shared);
    __syncthreads();
    load_head(shared.kv, static_cast<const float*>(a.v) + value_at(s, head.b, kv_head, key0), s.kv_stride,
              key0, keys, s.v_dim(), wide);
    __syncthreads();
    o.add_products(shared.kv, [&shared](int row, int key) { return shared.p.row[row][key]; });
    __syncthreads();
  }
  store_results<kTile, kHead>(a, head, t0, o, running, shared.mask);
}

}  // namespace

void attention_forward_tiled(const AttentionForward& args, CudaStream& stream) {
  const AttentionShape& s = args.s;
  for_head_size(stream, "attention_forward", s.larger_dim(), [&](auto size) {
    constexpr int kHead = decltype(size)::kHead, kTile = kForwardTile<kHead>;
    static_assert(sizeof(Shared<kTile, kHead>) <= kSmallestSharedMemory);
    const int64_t tiles = blocks_for(s.seq_q, kTile);
    launch(stream, "attention_forward",
           {grid(tiles * s.heads * s.batch), kAttentionThreads, sizeof(Shared<kTile, kHead>)},
           attention_forward_kernel<kTile, kHead>, args, tiles, product_width(s.head_dim),
           reads_wide(s, args.q, args.k, args.v));
  });
}

}  // namespace hawser::kernels::cuda
