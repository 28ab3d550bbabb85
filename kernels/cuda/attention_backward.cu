// Attention backward in f32 (FlashAttention-2, algorithm 2) without atomics. Probabilities are recomputed
// from the saved log-sum-exp twice: by the blocks that own tiles of keys (dk and dv, over the query heads of
// the group in ascending order), and by the blocks that own tiles of queries (dq). The workspace holds
// dout · o of every query (attention_deltas.cu).
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace hawser::kernels::cuda {
namespace {

template <int kTile, int kHead>
struct Shared {
  HeadTile<kTile, kHead> q, dout, k, v;
  ScoreTile<kTile> p, ds;  // dropped probabilities; gradients of scores
  Mask<kTile> mask;
  float lse[kTile], delta[kTile];
};

template <int kHead>
constexpr int kBackwardTile = kHead <= 128 ? 32 : 16;

/// Kernel parameters in addition to the arguments.
struct Details {
  int64_t query_tiles, key_tiles;
  int64_t dq_stride, dkv_stride;
  int width, value_width;
  bool wide;
};

/// Loads the queries t0.. of a head and the values that were saved for them.
template <int kTile, int kHead>
__device__ __forceinline__ void load_queries(Shared<kTile, kHead>& shared, const AttentionBackward& a,
                                             Head head, int64_t t0, bool wide) {
  const AttentionShape& s = a.s;
  load_head(shared.q, static_cast<const float*>(a.q) + query_at(s, head, t0), s.q_stride, t0, {0, s.seq_q},
            s.head_dim, wide);
  load_head(shared.dout, static_cast<const float*>(a.dout) + out_at(s, head, t0), s.o_stride, t0,
            {0, s.seq_q}, s.v_dim(), wide);
  load_saved(shared.lse, shared.delta, a, head, t0);
}

template <int kTile, int kHead>
__device__ __forceinline__ void load_keys(Shared<kTile, kHead>& shared, const AttentionBackward& a, int64_t b,
                                          int64_t kv_head, int64_t key0, bool wide) {
  const AttentionShape& s = a.s;
  load_head(shared.k, static_cast<const float*>(a.k) + key_at(s, b, kv_head, key0), s.kv_stride, key0,
            {0, s.seq_k}, s.head_dim, wide);
  load_head(shared.v, static_cast<const float*>(a.v) + value_at(s, b, kv_head, key0), s.kv_stride, key0,
            {0, s.seq_k}, s.v_dim(), wide);
}

/// Fills p and ds from the tiles.
template <int kTile, int kHead>
__device__ __forceinline__ void score_gradients(Shared<kTile, kHead>& shared, const AttentionShape& s,
                                                int64_t key0, const Details& d) {
  constexpr int kEach = kTile / kSide;
  float score[kEach][kEach], dp[kEach][kEach];
  multiply_heads(score, shared.q, shared.k, d.width);
  multiply_heads(dp, shared.dout, shared.v, d.value_width);
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const int row = thread_y() + r * kSide;
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const int column = thread_x() + c * kSide;
      score_gradient(shared, s, row, column, key0, score[r][c], dp[r][c]);
      shared.p.row[row][column] = score[r][c];
      shared.ds.row[row][column] = dp[r][c];
    }
  }
}

/// Writes row r of a gradient of `size` elements to element `at` of `to`, or adds it if the gradient
/// accumulates; writes 0 if `nothing` is seen.
template <class Sums>
__device__ __forceinline__ void store_gradient(bool accumulate, void* to, int64_t at, int64_t size, int r,
                                               const Sums& sums, bool nothing) {
  float* const row = static_cast<float*>(to) + at;
  if (nothing) {
    if (!accumulate) sums.clear_row(row, r, size);
  } else if (accumulate) {
    sums.merge_row(row, r, size, 1.0f, 1.0f);
  } else {
    sums.store_row(row, r, size, 1.0f);
  }
}

template <int kTile, int kHead>
__global__ void __launch_bounds__(kAttentionThreads)
    key_gradients_kernel(const AttentionBackward a, Details d) {
  auto& shared = shared_memory<Shared<kTile, kHead>>();
  const AttentionShape& s = a.s;
  const int64_t key0 = blockIdx.x % d.key_tiles * kTile, kv_head = blockIdx.x / d.key_tiles % s.kv_heads;
  const int64_t b = blockIdx.x / d.key_tiles / s.kv_heads, group = s.heads / s.kv_heads;
  const int64_t below = key0 + s.k_offset - s.q_offset;  // the query in the column of key0
  bool seen = false;
  load_keys(shared, a, b, kv_head, key0, d.wide);
  HeadSums<kTile, kHead> dk, dv;
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    // Earlier queries see none of these keys.
    for (int64_t t0 = below > 0 ? below / kTile * kTile : 0; t0 < s.seq_q; t0 += kTile) {
      __syncthreads();
      load_ranges(shared.mask, s, b, t0);
      __syncthreads();
      const Rows keys = seen_by_any(shared.mask);
      if (keys.begin >= key0 + kTile || keys.end <= key0) continue;
      seen = true;
      load_queries(shared, a, {b, h}, t0, d.wide);
      load_kept(shared.mask, s, {b, h}, t0, key0);
      __syncthreads();
      score_gradients(shared, s, key0, d);
      __syncthreads();
      dv.add_products(shared.dout, [&shared](int key, int row) { return shared.p.row[row][key]; });
      dk.add_products(shared.q, [&shared](int key, int row) { return shared.ds.row[row][key]; });
    }
  }
#pragma unroll
  for (int r = 0; r < kTile / kSide; ++r) {
    const int64_t key = key0 + thread_y() + r * kSide;
    if (key >= s.seq_k) continue;
    const int64_t at = (b * s.kv_batch_rows + key) * d.dkv_stride;
    store_gradient(a.accumulate_kv, a.dk, at + kv_head * s.head_dim, s.head_dim, r, dk, !seen);
    store_gradient(a.accumulate_kv, a.dv, at + kv_head * s.v_dim(), s.v_dim(), r, dv, !seen);
  }
}

template <int kTile, int kHead>
__global__ void __launch_bounds__(kAttentionThreads)
    query_gradients_kernel(const AttentionBackward a, Details d) {
  auto& shared = shared_memory<Shared<kTile, kHead>>();
  const AttentionShape& s = a.s;
  const int64_t t0 = (d.query_tiles - 1 - blockIdx.x % d.query_tiles) * kTile;  // starts with the longest
                                                                                // rows
  const Head head = {blockIdx.x / d.query_tiles / s.heads, blockIdx.x / d.query_tiles % s.heads};
  load_ranges(shared.mask, s, head.b, t0);
  load_queries(shared, a, head, t0, d.wide);
  __syncthreads();
  const Rows keys = seen_by_any(shared.mask);
  HeadSums<kTile, kHead> dq;
  for (int64_t key0 = keys.begin / kTile * kTile; key0 < keys.end; key0 += kTile) {
    load_keys(shared, a, head.b, kv_head_of(s, head.h), key0, d.wide);
    load_kept(shared.mask, s, head, t0, key0);
    __syncthreads();
    score_gradients(shared, s, key0, d);
    __syncthreads();
    dq.add_products(shared.k, [&shared](int row, int key) { return shared.ds.row[row][key]; });
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kTile / kSide; ++r) {
    const int64_t t = t0 + thread_y() + r * kSide;
    const bool nothing = shared.mask.sees_nothing(thread_y() + r * kSide);
    if (t >= s.seq_q) continue;
    const int64_t at = (head.b * s.q_rows() + t) * d.dq_stride + head.h * s.head_dim;
    store_gradient(a.accumulate_q, a.dq, at, s.head_dim, r, dq, nothing);
  }
}

template <int kHead>
void run(const AttentionBackward& args, CudaStream& stream) {
  constexpr const char* kName = "attention_backward";
  constexpr int kTile = kBackwardTile<kHead>;
  constexpr size_t kBytes = sizeof(Shared<kTile, kHead>);
  static_assert(kBytes <= kSmallestSharedMemory);
  const AttentionShape& s = args.s;
  const Details d = {blocks_for(s.seq_q, kTile),
                     blocks_for(s.seq_k, kTile),
                     args.dq_stride > 0 ? args.dq_stride : s.q_stride,
                     args.dkv_stride > 0 ? args.dkv_stride : s.kv_stride,
                     product_width(s.head_dim),
                     product_width(s.v_dim()),
                     reads_wide(s, args.q, args.k, args.v) && wide_rows(args.dout, s.o_stride, s.type)};
  if (d.key_tiles > 0) {
    launch(stream, kName, {grid(d.key_tiles * s.kv_heads * s.batch), kAttentionThreads, kBytes},
           key_gradients_kernel<kTile, kHead>, args, d);
  }
  if (d.query_tiles > 0) {
    launch(stream, kName, {grid(d.query_tiles * s.heads * s.batch), kAttentionThreads, kBytes},
           query_gradients_kernel<kTile, kHead>, args, d);
  }
}

}  // namespace

void attention_backward_tiled(const AttentionBackward& args, CudaStream& stream) {
  for_head_size(stream, "attention_backward", args.s.larger_dim(),
                [&](auto size) { run<decltype(size)::kHead>(args, stream); });
}

}  // namespace hawser::kernels::cuda
