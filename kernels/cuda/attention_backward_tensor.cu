// Attention backward on tensor cores, for products of bf16 values (FlashAttention-2, algorithm 2), without
// atomics. Probabilities are recomputed from the saved log-sum-exp twice: by the blocks that own 64 keys (dk
// and dv, over the query heads of the group in ascending order), and by the blocks that own 64 queries (dq).
// The workspace holds dout · o of every query (attention_deltas.cu).
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tensor.h"

namespace hawser::kernels::cuda {
namespace {

/// Rows of the tiles that a block visits: as many as shared memory and registers allow.
template <int kHead>
constexpr int kOtherRows = kHead <= 64    ? 64
                           : kHead <= 128 ? 32
                                          : 16;

/// Columns of dk and dv that a block of keys computes: registers hold no more.
template <int kHead>
constexpr int kKeyColumns = kHead <= 128 ? kHead : 128;

template <int kQueries, int kKeys, int kHead>
struct Shared {
  NarrowHeads<kQueries, kHead> q, dout;
  NarrowHeads<kKeys, kHead> k, v;
  Mask<kQueries, kKeys> mask;
  float lse[kQueries], delta[kQueries];
};

/// Kernel parameters in addition to the arguments.
struct Details {
  int64_t tiles;  ///< of own rows
  int64_t dq_stride, dkv_stride;
  int width, value_width;
  bool wide;
};

/// Loads the queries t0.. of a head and the values that were saved for them.
template <class T, int kQueries, int kKeys, int kHead>
__device__ __forceinline__ void load_queries(Shared<kQueries, kKeys, kHead>& shared,
                                             const AttentionBackward& a, Head head, int64_t t0, bool wide) {
  const AttentionShape& s = a.s;
  load_heads(shared.q, static_cast<const T*>(a.q) + query_at(s, head, t0), s.q_stride, t0, {0, s.seq_q},
             s.head_dim, wide);
  load_heads(shared.dout, static_cast<const T*>(a.dout) + out_at(s, head, t0), s.o_stride, t0, {0, s.seq_q},
             s.v_dim(), wide);
  load_saved(shared.lse, shared.delta, a, head, t0);
}

template <class T, int kQueries, int kKeys, int kHead>
__device__ __forceinline__ void load_keys(Shared<kQueries, kKeys, kHead>& shared, const AttentionBackward& a,
                                          int64_t b, int64_t kv_head, int64_t key0, bool wide) {
  const AttentionShape& s = a.s;
  load_heads(shared.k, static_cast<const T*>(a.k) + key_at(s, b, kv_head, key0), s.kv_stride, key0,
             {0, s.seq_k}, s.head_dim, wide);
  load_heads(shared.v, static_cast<const T*>(a.v) + value_at(s, b, kv_head, key0), s.kv_stride, key0,
             {0, s.seq_k}, s.v_dim(), wide);
}

/// Writes own row r to element `at` and on of `to`, or adds it if the gradient accumulates. If `nothing` is
/// seen, the row is 0.
template <class T, int kColumns>
__device__ __forceinline__ void store_gradient(const AttentionBackward& a, bool accumulate, void* to,
                                               int64_t at, int64_t size, int r, WarpSums<kColumns>& sums,
                                               bool nothing) {
  if (accumulate) {
    if (!nothing) merge_columns(static_cast<float*>(to) + at, sums, r, size, 1.0f, 1.0f);
  } else if (has_f32_gradients(a)) {
    nothing ? clear_columns(static_cast<float*>(to) + at, sums, r, size)
            : store_columns(static_cast<float*>(to) + at, sums, r, size, 1.0f);
  } else {
    nothing ? clear_columns(static_cast<T*>(to) + at, sums, r, size)
            : store_columns(static_cast<T*>(to) + at, sums, r, size, 1.0f);
  }
}

/// blockIdx.y: the block computes columns kKeyColumns * blockIdx.y and on.
template <int kHead, class T>
__global__ void __launch_bounds__(kTensorAttentionThreads)
    key_gradients_tensor_kernel(const AttentionBackward a, Details d) {
  constexpr int kQueries = kOtherRows<kHead>, kColumns = kKeyColumns<kHead>;
  auto& shared = shared_memory<Shared<kQueries, kOwnRows, kHead>>();
  const AttentionShape& s = a.s;
  const int64_t key0 = blockIdx.x % d.tiles * kOwnRows, kv_head = blockIdx.x / d.tiles % s.kv_heads;
  const int64_t b = blockIdx.x / d.tiles / s.kv_heads, group = s.heads / s.kv_heads;
  const int64_t below = key0 + s.k_offset - s.q_offset;  // the query in the column of key0
  const int first = static_cast<int>(blockIdx.y) * kColumns;
  bool seen = false;
  load_keys<T>(shared, a, b, kv_head, key0, d.wide);
  WarpSums<kColumns> dk, dv;
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    // Earlier queries see none of these keys.
    for (int64_t t0 = below > 0 ? below / kQueries * kQueries : 0; t0 < s.seq_q; t0 += kQueries) {
      __syncthreads();
      load_ranges(shared.mask, s, b, t0);
      __syncthreads();
      const Rows keys = seen_by_any(shared.mask);
      if (keys.begin >= key0 + kOwnRows || keys.end <= key0) continue;
      seen = true;
      load_queries<T>(shared, a, {b, h}, t0, d.wide);
      load_kept(shared.mask, s, {b, h}, t0, key0);
      __syncthreads();
      if (!warp_has_rows(key0, s.seq_k)) continue;
      WarpSums<kQueries> p, ds;  // of this warp's keys, transposed
      p.add_scores(shared.k, shared.q, d.width);
      ds.add_scores(shared.v, shared.dout, d.value_width);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        p.with_row(ds, r, [&](int query, float& score, float& dp) {
          score_gradient(shared, s, query, own_row(r), key0, score, dp);
        });
      }
      dv.add_products(p, shared.dout, first);
      dk.add_products(ds, shared.q, first);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t key = key0 + own_row(r);
    if (key >= s.seq_k) continue;
    const int64_t at = (b * s.kv_batch_rows + key) * d.dkv_stride + first;
    store_gradient<T>(a, a.accumulate_kv, a.dk, at + kv_head * s.head_dim, s.head_dim - first, r, dk, !seen);
    store_gradient<T>(a, a.accumulate_kv, a.dv, at + kv_head * s.v_dim(), s.v_dim() - first, r, dv, !seen);
  }
}

template <int kHead, class T>
__global__ void __launch_bounds__(kTensorAttentionThreads)
    query_gradients_tensor_kernel(const AttentionBackward a, Details d) {
  constexpr int kKeys = kOtherRows<kHead>;
  auto& shared = shared_memory<Shared<kOwnRows, kKeys, kHead>>();
  const AttentionShape& s = a.s;
  const int64_t t0 = (d.tiles - 1 - blockIdx.x % d.tiles) * kOwnRows;  // starts with the longest rows
  const Head head = {blockIdx.x / d.tiles / s.heads, blockIdx.x / d.tiles % s.heads};
  load_ranges(shared.mask, s, head.b, t0);
  load_queries<T>(shared, a, head, t0, d.wide);
  __syncthreads();
  const Rows keys = seen_by_any(shared.mask);
  WarpSums<kHead> dq;
  for (int64_t key0 = keys.begin / kKeys * kKeys; key0 < keys.end; key0 += kKeys) {
    load_keys<T>(shared, a, head.b, kv_head_of(s, head.h), key0, d.wide);
    load_kept(shared.mask, s, head, t0, key0);
    __syncthreads();
    if (warp_has_rows(t0, s.seq_q)) {
      WarpSums<kKeys> p, ds;
      p.add_scores(shared.q, shared.k, d.width);
      ds.add_scores(shared.dout, shared.v, d.value_width);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        p.with_row(ds, r, [&](int key, float& score, float& dp) {
          score_gradient(shared, s, own_row(r), key, key0, score, dp);
        });
      }
      dq.add_products(ds, shared.k);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t t = t0 + own_row(r);
    const bool nothing = shared.mask.sees_nothing(own_row(r));
    if (t >= s.seq_q) continue;
    const int64_t at = (head.b * s.q_rows() + t) * d.dq_stride + head.h * s.head_dim;
    store_gradient<T>(a, a.accumulate_q, a.dq, at, s.head_dim, r, dq, nothing);
  }
}

template <int kHead, class T>
void run(const AttentionBackward& args, CudaStream& stream) {
  constexpr const char* kName = "attention_backward";
  using ByKeys = Shared<kOtherRows<kHead>, kOwnRows, kHead>;
  using ByQueries = Shared<kOwnRows, kOtherRows<kHead>, kHead>;
  static_assert(sizeof(ByKeys) <= kSmallestSharedMemory && sizeof(ByQueries) <= kSmallestSharedMemory);
  const AttentionShape& s = args.s;
  Details d = {0,
               args.dq_stride > 0 ? args.dq_stride : s.q_stride,
               args.dkv_stride > 0 ? args.dkv_stride : s.kv_stride,
               score_width(s.head_dim),
               score_width(s.v_dim()),
               reads_wide(s, args.q, args.k, args.v) && wide_rows(args.dout, s.o_stride, s.type)};
  d.tiles = blocks_for(s.seq_k, kOwnRows);
  if (d.tiles > 0) {
    const dim3 blocks(static_cast<unsigned>(d.tiles * s.kv_heads * s.batch),
                      static_cast<unsigned>(blocks_for(s.larger_dim(), kKeyColumns<kHead>)));
    launch(stream, kName, {blocks, kTensorAttentionThreads, sizeof(ByKeys)},
           key_gradients_tensor_kernel<kHead, T>, args, d);
  }
  d.tiles = blocks_for(s.seq_q, kOwnRows);
  if (d.tiles > 0) {
    launch(stream, kName, {grid(d.tiles * s.heads * s.batch), kTensorAttentionThreads, sizeof(ByQueries)},
           query_gradients_tensor_kernel<kHead, T>, args, d);
  }
}

}  // namespace

void attention_backward_tensor(const AttentionBackward& args, CudaStream& stream) {
  for_head_size(stream, "attention_backward", args.s.larger_dim(), [&](auto size) {
    for_type(args.s.type,
             [&](auto tag) { run<decltype(size)::kHead, type_of<decltype(tag)>>(args, stream); });
  });
}

}  // namespace hawser::kernels::cuda
