// Attention forward: one task per few query tiles, key tiles from left to right with an online softmax
// (FlashAttention-2, algorithm 1). When queries are few (decoding with a cache) the query heads that share a
// key-value head stand side by side in one tile.
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kMostTiles = 8, kWantedTasks = 32;

/// How the query rows are cut into tiles, and the tiles of one key-value head into tasks: consecutive query
/// tiles, which load their keys once. A function of the shape alone.
struct Cut {
  int64_t group;  // query heads per key-value head
  int64_t heads_per_tile, head_tiles;
  int64_t queries_per_tile, query_tiles;
  int64_t tiles_per_task, tasks;  // of one key-value head of one batch row
};

inline Cut cut_queries(const AttentionShape& s) {
  Cut cut;
  cut.group = s.heads / s.kv_heads;
  cut.heads_per_tile = s.seq_q < kTile ? least(cut.group, most(kTile / s.seq_q, 1)) : 1;
  cut.head_tiles = (cut.group + cut.heads_per_tile - 1) / cut.heads_per_tile;
  cut.queries_per_tile = least(kTile, s.seq_q);
  cut.query_tiles = (s.seq_q + kTile - 1) / kTile;
  const int64_t tiles = cut.head_tiles * cut.query_tiles;
  cut.tiles_per_task = least(kMostTiles, most(1, s.batch * s.kv_heads * tiles / kWantedTasks));
  cut.tasks = (tiles + cut.tiles_per_task - 1) / cut.tiles_per_task;
  return cut;
}

/// One worker's memory, all of it fp32: a key tile, a tile of scores and of dropout, and for each query tile
/// of the task the transposed queries and the output.
struct Scratch {
  float *keys, *values, *scores, *keep, *columns, *o;
};

inline int64_t scratch_floats(const AttentionShape& s) {
  return (2 + 2 * cut_queries(s).tiles_per_task) * kTile * round_up(s.head_dim, kLanes) + 2 * kTile * kTile;
}

inline Scratch scratch_of(const AttentionForward& args, int32_t worker) {
  const int64_t rows = kTile * round_up(args.s.head_dim, kLanes);
  float* base = static_cast<float*>(args.workspace) + worker * scratch_floats(args.s);
  float* products = base + 2 * rows;
  float* tiles = products + 2 * kTile * kTile;
  return {base,     base + rows,
          products, products + kTile * kTile,
          tiles,    tiles + cut_queries(args.s).tiles_per_task * rows};
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

/// One query tile on its way through the keys.
struct Tile {
  QueryTile q;
  Softmax running;
  float *columns, *o;
};

template <class E>
void begin_tile(const AttentionForward& args, int64_t b, Tile& tile) {
  const AttentionShape& s = args.s;
  const QueryTile& q = tile.q;
  const int64_t width = round_up(s.head_dim, kLanes), rows = q.vecs * kLanes;
  for (int r = 0; r < q.n; ++r) {
    const E* row =
        static_cast<const E*>(args.q) + (b * s.seq_q + q.query[r]) * s.q_stride + q.head[r] * s.head_dim;
    load_row(tile.o + r * width, row, s.head_dim, width, s.scale);
  }
  zero(tile.o + q.n * width, (rows - q.n) * width);
  transpose(tile.columns, tile.o, width, q.vecs);
  zero(tile.o, rows * width);
  for (int i = 0; i < kTile; ++i) {
    tile.running.max[i] = kLowestMax;
    tile.running.sum[i] = 0;
    tile.running.rescale[i] = 1;
  }
}

/// The step of one query tile to a key tile that the scratch holds.
inline void meet_keys(const AttentionShape& s, int64_t b, Tile& tile, const KeyTile& k, const Scratch& m) {
  const int64_t width = round_up(s.head_dim, kLanes);
  transposed_product(m.scores, k, m.keys, width, tile.columns, s.head_dim);
  if (s.dropout.p > 0) dropout_tile(m.keep, s, b, tile.q, k);
  for (int c = 0; c < tile.q.vecs; ++c) {
    if (k.vec_first[c] < k.vec_last[c]) {
      softmax_vector(s, tile.q, k, c, m.scores, m.keep, tile.running);
    } else {
      vstore(tile.running.rescale + c * kLanes, vset(1.0f));
    }
  }
  rescale_output(tile.o, width, tile.q.n, tile.running.rescale);
  add_over_keys(tile.o, tile.q, k, m.scores, m.values, width);
}

template <class E>
void end_tile(const AttentionForward& args, int64_t b, const Tile& tile) {
  const AttentionShape& s = args.s;
  const int64_t width = round_up(s.head_dim, kLanes);
  const float kept = s.dropout.p > 0 ? 1.0f / (1.0f - s.dropout.p) : 1.0f;
  for (int r = 0; r < tile.q.n; ++r) {
    const int64_t head = tile.q.head[r], t = tile.q.query[r];
    E* row = static_cast<E*>(args.o) + (b * s.seq_q + t) * s.o_stride + head * s.head_dim;
    const float sum = tile.running.sum[r];
    store_row(row, tile.o + r * width, s.head_dim, sum == 0 ? 0.0f : kept / sum);
    args.lse[(b * s.heads + head) * s.seq_q + t] = tile.running.max[r] + __builtin_logf(sum);
  }
}

/// The rows of tile `index` of a key-value head; the heads of one query range follow each other.
inline void cut_tile(const AttentionShape& s, const Cut& cut, int64_t b, int64_t kv_head, int64_t index,
                     QueryTile& q) {
  const int64_t first_head = index % cut.head_tiles * cut.heads_per_tile;
  const int64_t t0 = index / cut.head_tiles * kTile;
  const int64_t heads = least(cut.heads_per_tile, cut.group - first_head);
  const int64_t queries = least(cut.queries_per_tile, s.seq_q - t0);
  int n = 0;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < queries; ++t) set_row(q, s, b, n++, kv_head * cut.group + first_head + h, t0 + t);
  }
  finish_rows(q, n);
}

/// Asks for part i of n of the key tile after `start`, so that it comes from memory while this one is worked
/// on.
template <class E>
inline void prefetch_keys(const E* keys, const E* values, int64_t stride, int64_t start, int64_t hi,
                          int64_t d, int i, int n) {
  const int64_t next = start + kTile, end = least(next + (i + 1) * kTile / n, hi + 1);
  for (int64_t key = next + i * kTile / n; key < end; ++key) {
    for (int64_t j = 0; j < d; j += 64 / static_cast<int64_t>(sizeof(E))) {
      __builtin_prefetch(keys + key * stride + j);
      __builtin_prefetch(values + key * stride + j);
    }
  }
}

template <class E>
void forward_tiles(const AttentionForward& args, const Cut& cut, int64_t b, int64_t kv_head, int64_t first,
                   int count, const Scratch& m) {
  const AttentionShape& s = args.s;
  const int64_t width = round_up(s.head_dim, kLanes);
  Tile tiles[kMostTiles];
  int64_t lo = INT32_MAX, hi = -1;
  for (int i = 0; i < count; ++i) {
    tiles[i].columns = m.columns + i * kTile * width;
    tiles[i].o = m.o + i * kTile * width;
    cut_tile(s, cut, b, kv_head, first + i, tiles[i].q);
    begin_tile<E>(args, b, tiles[i]);
    lo = least(lo, tiles[i].q.lo);
    hi = most(hi, tiles[i].q.hi);
  }
  const int64_t at = b * s.kv_batch_rows * s.kv_stride + kv_head * s.head_dim;
  const E *keys = static_cast<const E*>(args.k) + at, *values = static_cast<const E*>(args.v) + at;
  for (int64_t start = lo / kTile * kTile; start <= hi; start += kTile) {
    load_keys(m.keys, keys, s.kv_stride, start, lo, hi, s.head_dim, width);
    load_keys(m.values, values, s.kv_stride, start, lo, hi, s.head_dim, width);
    for (int i = 0; i < count; ++i) {
      prefetch_keys(keys, values, s.kv_stride, start, hi, s.head_dim, i, count);
      if (tiles[i].q.lo >= start + kTile || tiles[i].q.hi < start) continue;
      meet_keys(s, b, tiles[i], key_tile(tiles[i].q, start), m);
    }
  }
  for (int i = 0; i < count; ++i) end_tile<E>(args, b, tiles[i]);
}

/// Tasks go from the last query tiles (under a causal mask the longest) to the first.
inline void forward_task(const AttentionForward& args, const Cut& cut, int64_t task, int32_t worker) {
  const AttentionShape& s = args.s;
  const int64_t kv_heads = s.batch * s.kv_heads;
  const int64_t first = (cut.tasks - 1 - task / kv_heads) * cut.tiles_per_task;
  const int count = static_cast<int>(least(cut.tiles_per_task, cut.head_tiles * cut.query_tiles - first));
  const int64_t b = task % kv_heads / s.kv_heads, kv_head = task % s.kv_heads;
  if (s.type == DType::kBf16) {
    forward_tiles<uint16_t>(args, cut, b, kv_head, first, count, scratch_of(args, worker));
  } else {
    forward_tiles<float>(args, cut, b, kv_head, first, count, scratch_of(args, worker));
  }
}

}  // namespace

int64_t attention_forward_workspace_bytes(const AttentionForward& args, int32_t num_workers) {
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_q <= 0 || s.kv_heads <= 0) return 0;
  return num_workers * scratch_floats(s) * static_cast<int64_t>(sizeof(float));
}

void attention_forward(const AttentionForward& args, Stream& stream) {
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_q <= 0 || s.heads <= 0 || s.head_dim <= 0) return;
  const Cut cut = cut_queries(s);
  parallel(stream, s.batch * s.kv_heads * cut.tasks,
           [&](int64_t task, int32_t worker) { forward_task(args, cut, task, worker); });
}

}  // namespace hawser::kernels::HWS_LEVEL
