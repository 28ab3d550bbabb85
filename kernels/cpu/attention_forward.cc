// Attention forward: one task per query tile, key tiles from left to right with an online softmax
// (FlashAttention-2, algorithm 1). When queries are few (decoding with a cache) the query heads that share a
// key-value head stand side by side in one tile.
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// How the query rows are cut into tiles; a function of the shape alone.
struct Cut {
  int64_t group;  // query heads per key-value head
  int64_t heads_per_tile, head_tiles;
  int64_t queries_per_tile, query_tiles;
};

inline Cut cut_queries(const AttentionShape& s) {
  Cut cut;
  cut.group = s.heads / s.kv_heads;
  cut.heads_per_tile = s.seq_q < kTile ? least(cut.group, most(kTile / s.seq_q, 1)) : 1;
  cut.head_tiles = (cut.group + cut.heads_per_tile - 1) / cut.heads_per_tile;
  cut.queries_per_tile = least(kTile, s.seq_q);
  cut.query_tiles = (s.seq_q + kTile - 1) / kTile;
  return cut;
}

/// One worker's memory: all of it fp32.
struct Scratch {
  float *columns, *o, *keys, *values, *scores, *keep;
};

inline int64_t scratch_floats(const AttentionShape& s) {
  return 4 * kTile * round_up(s.head_dim, kLanes) + 2 * kTile * kTile;
}

inline Scratch scratch_of(const AttentionForward& args, int32_t worker) {
  const int64_t rows = kTile * round_up(args.s.head_dim, kLanes);
  float* base = static_cast<float*>(args.workspace) + worker * scratch_floats(args.s);
  return {
      base, base + rows, base + 2 * rows, base + 3 * rows, base + 4 * rows, base + 4 * rows + kTile * kTile};
}

/// Running maximum and sum of each query row, and the factor that its output took at the last key tile.
struct Softmax {
  float max[kTile], sum[kTile], rescale[kTile];
};

/// Turns a vector of queries' scores into probabilities relative to the running maximum.
inline void softmax_vector(const AttentionShape& s, const QueryTile& q, const KeyTile& k, int c,
                           float* scores, const float* keep, Softmax& running) {
  const int first = k.vec_first[c], last = k.vec_last[c];
  float* column = scores + c * kLanes;
  const vf old_max = vload(running.max + c * kLanes);
  vf max[kRows];
  for (int r = 0; r < kRows; ++r) max[r] = old_max;
  if (s.softcap > 0) {
    const vf cap = vset(s.softcap), inverse = vset(1.0f / s.softcap);
    for (int row = first; row < last; ++row) {
      vstore(column + row * kTile, vmul(cap, vtanh(vmul(vload(column + row * kTile), inverse))));
    }
  }
  if (k.masked[c]) {
    const LaneRange range = lane_range(q, k, c);
    for (int row = first; row < last; ++row) {
      vstore(column + row * kTile, mask_scores(range, row, vload(column + row * kTile)));
    }
  }
  for (int row = first; row < last; row += kRows) {
    for (int r = 0; r < kRows; ++r) max[r] = vmax(max[r], vload(column + (row + r) * kTile));
  }
  const vf new_max = vmax(vmax(max[0], max[1]), vmax(max[2], max[3]));
  const vf rescale = vexp(vsub(old_max, new_max));
  vf sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = vzero();
  for (int row = first; row < last; row += kRows) {
    for (int r = 0; r < kRows; ++r) {
      const vf p = vexp(vsub(vload(column + (row + r) * kTile), new_max));
      sum[r] = vadd(sum[r], p);
      vstore(column + (row + r) * kTile, p);
    }
  }
  if (s.dropout.p > 0) {
    for (int row = first; row < last; ++row) {
      const int64_t at = row * kTile;
      vstore(column + at, vmul(vload(column + at), vload(keep + at + c * kLanes)));
    }
  }
  const vf total = vadd(vadd(sum[0], sum[1]), vadd(sum[2], sum[3]));
  vstore(running.max + c * kLanes, new_max);
  vstore(running.sum + c * kLanes, vfma(vload(running.sum + c * kLanes), rescale, total));
  vstore(running.rescale + c * kLanes, rescale);
}

inline void rescale_output(float* o, int64_t width, int n, const float* rescale) {
  for (int r = 0; r < n; ++r) {
    if (rescale[r] == 1.0f) continue;
    const vf factor = vset(rescale[r]);
    for (int64_t j = 0; j < width; j += kLanes)
      vstore(o + r * width + j, vmul(vload(o + r * width + j), factor));
  }
}

template <class E>
void forward_tile(const AttentionForward& args, int64_t b, int64_t kv_head, QueryTile& q, const Scratch& m) {
  const AttentionShape& s = args.s;
  const int64_t width = round_up(s.head_dim, kLanes);
  for (int r = 0; r < q.vecs * kLanes; ++r) {
    const E* row =
        static_cast<const E*>(args.q) + (b * s.seq_q + q.query[r]) * s.q_stride + q.head[r] * s.head_dim;
    if (r < q.n) load_row(m.o + r * width, row, s.head_dim, width, s.scale);
    if (r >= q.n) zero(m.o + r * width, width);
  }
  transpose(m.columns, m.o, width, q.vecs);
  zero(m.o, q.vecs * kLanes * width);
  Softmax running;
  for (int i = 0; i < kTile; ++i) {
    running.max[i] = kLowestMax;
    running.sum[i] = 0;
    running.rescale[i] = 1;
  }
  const int64_t at = b * s.kv_batch_rows * s.kv_stride + kv_head * s.head_dim;
  for (int64_t start = q.lo / kTile * kTile; start <= q.hi; start += kTile) {
    const KeyTile k = key_tile(q, start);
    load_keys(m.keys, static_cast<const E*>(args.k) + at, s.kv_stride, q, k, s.head_dim, width);
    load_keys(m.values, static_cast<const E*>(args.v) + at, s.kv_stride, q, k, s.head_dim, width);
    transposed_product(m.scores, k, m.keys, width, m.columns, s.head_dim);
    if (s.dropout.p > 0) dropout_tile(m.keep, s, b, q, k);
    for (int c = 0; c < q.vecs; ++c) {
      if (k.vec_first[c] < k.vec_last[c]) {
        softmax_vector(s, q, k, c, m.scores, m.keep, running);
      } else {
        vstore(running.rescale + c * kLanes, vset(1.0f));
      }
    }
    rescale_output(m.o, width, q.n, running.rescale);
    add_over_keys(m.o, q, k, m.scores, m.values, width);
  }
  const float kept = s.dropout.p > 0 ? 1.0f / (1.0f - s.dropout.p) : 1.0f;
  for (int r = 0; r < q.n; ++r) {
    E* row = static_cast<E*>(args.o) + (b * s.seq_q + q.query[r]) * s.o_stride + q.head[r] * s.head_dim;
    const float sum = running.sum[r];
    store_row(row, m.o + r * width, s.head_dim, sum == 0 ? 0.0f : kept / sum);
    args.lse[(b * s.heads + q.head[r]) * s.seq_q + q.query[r]] = running.max[r] + __builtin_logf(sum);
  }
}

/// Task t: query tiles from the last (under a causal mask the longest) to the first.
inline void forward_task(const AttentionForward& args, const Cut& cut, int64_t task, int32_t worker) {
  const AttentionShape& s = args.s;
  const int64_t per_tile = s.batch * s.kv_heads * cut.head_tiles;
  const int64_t query_tile = cut.query_tiles - 1 - task / per_tile;
  const int64_t head_tile = task % cut.head_tiles, b_kv = task % per_tile / cut.head_tiles;
  const int64_t b = b_kv / s.kv_heads, kv_head = b_kv % s.kv_heads;
  const int64_t heads = least(cut.heads_per_tile, cut.group - head_tile * cut.heads_per_tile);
  const int64_t t0 = query_tile * kTile, queries = least(cut.queries_per_tile, s.seq_q - t0);
  QueryTile q;
  int n = 0;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t head = kv_head * cut.group + head_tile * cut.heads_per_tile + h;
    for (int64_t t = 0; t < queries; ++t) set_row(q, s, b, n++, head, t0 + t);
  }
  finish_rows(q, n);
  if (s.type == DType::kBf16) {
    forward_tile<uint16_t>(args, b, kv_head, q, scratch_of(args, worker));
  } else {
    forward_tile<float>(args, b, kv_head, q, scratch_of(args, worker));
  }
}

}  // namespace

int64_t attention_forward_workspace_bytes(const AttentionForward& args, int32_t num_workers) {
  return num_workers * scratch_floats(args.s) * static_cast<int64_t>(sizeof(float));
}

void attention_forward(const AttentionForward& args, Stream& stream) {
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_q <= 0 || s.heads <= 0 || s.head_dim <= 0) return;
  const Cut cut = cut_queries(s);
  const int64_t tasks = s.batch * s.kv_heads * cut.head_tiles * cut.query_tiles;
  parallel(stream, tasks, [&](int64_t task, int32_t worker) { forward_task(args, cut, task, worker); });
}

}  // namespace hawser::kernels::HWS_LEVEL
