// Attention forward: one task for a few query tiles, which processes key tiles from left to right with an
// online softmax (FlashAttention-2, algorithm 1). If there are few queries (decoding with a cache), the query
// heads that share a key-value head are placed side by side in one tile.
#include "kernels/cpu/attention_dropout.h"
#include "kernels/cpu/attention_pack.h"
#include "kernels/cpu/attention_product.h"
#include "kernels/cpu/attention_softmax.h"
#include "kernels/cpu/attention_type.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int kMostTiles = 16, kWantedTasks = 16;
constexpr int kStrip = kLanes == 16 ? 32 : 16;  // number of keys whose scores stay in the first-level cache
static_assert(kTile % kStrip == 0 && kStrip % kRows == 0);

/// How the query rows are divided into tiles, and the tiles of one key-value head into tasks. A task has
/// consecutive query tiles, which load their keys once. The division depends only on the shape.
struct Cut {
  int64_t group;  // query heads per key-value head
  int64_t heads_per_tile, head_tiles;
  int64_t queries_per_tile, query_tiles;
  int64_t tiles_per_task, tasks;  // of one key-value head of one batch row
};

HWS_SMALL Cut cut_queries(const AttentionShape& s) {
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

/// One worker's memory: a key tile in words; for a panel, scores of a strip and probabilities of a key tile
/// in words; the dropout mask of a tile, a row of zeros; and for each query tile of the task, the transposed
/// queries in words and the output.
struct Scratch {
  float *keys, *values, *scores, *p, *keep, *zeros, *columns, *o;
};

template <class Words>
HWS_SMALL int64_t scratch_floats(const AttentionShape& s) {
  const int64_t lines = kTile * line_words<Words>(s.head_dim), width = padded_width(s.value_dim);
  return lines + kTile / Words::kPerWord * (width + kPanel) + kStrip * kPanel + kKeepFloats +
         padded_width(most(s.head_dim, s.value_dim)) +
         cut_queries(s).tiles_per_task * (lines + kTile * width);
}

template <class Words>
HWS_SMALL Scratch scratch_of(const AttentionForward& args, int32_t worker) {
  const int64_t lines = kTile * line_words<Words>(args.s.head_dim), width = padded_width(args.s.value_dim);
  Scratch m;
  m.keys = static_cast<float*>(args.workspace) + worker * scratch_floats<Words>(args.s);
  m.values = m.keys + lines;
  m.scores = m.values + kTile / Words::kPerWord * width;
  m.p = m.scores + kStrip * kPanel;
  float* const keep = m.p + kTile / Words::kPerWord * kPanel;
  m.keep = keep + kKeepBefore * kTile;
  m.zeros = keep + kKeepFloats;
  m.columns = m.zeros + padded_width(most(args.s.head_dim, args.s.value_dim));
  m.o = m.columns + cut_queries(args.s).tiles_per_task * lines;
  return m;
}

/// The state of one query tile while it visits the keys.
struct Tile {
  QueryTile q;
  Softmax running;
  QuerySums o;
  float* columns;
  float greatest[kTile];  // of each query row's scores; only with AttentionShape::largest
};

template <class Words, class E>
void begin_tile(const AttentionForward& args, int64_t b, Tile& tile, const E* zeros) {
  const AttentionShape& s = args.s;
  const QueryTile& q = tile.q;
  const E* base = static_cast<const E*>(args.q) + b * s.q_rows() * s.q_stride;
  RowPointers<E> rows;
  for (int r = 0; r < q.vecs * kLanes; ++r)
    rows.row[r] = r < q.n ? base + q.query[r] * s.q_stride + q.head[r] * s.head_dim : zeros;
  pack_columns<Words>(tile.columns, rows, q.vecs, s.head_dim);
  for (int i = 0; i < q.vecs * kLanes; ++i) {
    tile.running.reference[i] = kLowestMax;
    tile.running.sum[i] = 0;
    tile.greatest[i] = kMasked;
  }
}

/// Multiplies the sums of vector c of the queries by `rescale`.
inline void rescale_output(QuerySums& o, int c, const float* rescale) {
  if (!o.begun[c]) return;
  for (int r = 0; r < kLanes; ++r) {
    if (rescale[r] == 1.0f) continue;
    const vf factor = vset(rescale[r]);
    float* row = o.out + (c * kLanes + r) * o.width;
    for (int64_t j = 0; j < o.width; j += kLanes) vstore(row + j, vmul(vload(row + j), factor));
  }
}

/// Processes the key rows `keys` of the key tile in the scratch for one panel of queries. Probabilities stay
/// as words until they are multiplied by the values: all rows at once, unless the reference of the softmax
/// moves before.
template <class Words>
HWS_NOINLINE void meet_keys(const AttentionShape& s, Tile& tile, int panel, const KeyTile& k, RowRange keys,
                            const Scratch& m) {
  const int64_t words = line_words<Words>(s.head_dim);
  const int c0 = panel * kCols, c1 = static_cast<int>(least(c0 + kCols, tile.q.vecs));
  const vf unit = vset(score_units(s).unit);
  RowRange waiting[kVecs];
  for (int c = c0; c < c1; ++c) waiting[c] = {k.vec[c].first, k.vec[c].first};
  for (int from = keys.first; from < keys.last; from += kStrip) {
    const RowRange strip = {from, static_cast<int>(least(from + kStrip, keys.last))};
    transposed_product<Words>(m.scores, panel, k, strip, m.keys, words, tile.columns + in_panels(c0, words),
                              words_in<Words>(s.head_dim));
    for (int c = c0; c < c1; ++c) {
      const RowRange rows = rows_of_vector(k, c, strip);
      if (rows.first >= rows.last) continue;
      float* column = m.scores + (rows.first - from) * kPanel + (c - c0) * kLanes;
      if (s.softcap > 0 || k.masked[c]) finish_scores(column, s, tile.q, k, c, rows);
      const int n = rows.last - rows.first;
      if (s.largest != nullptr) {
        float* const greatest = tile.greatest + c * kLanes;
        vstore(greatest, vmax(vload(greatest), greatest_score(column, n, vset(s.scale))));
      }
      const float* keep = s.dropout.p > 0 ? m.keep + rows.first * kTile + c * kLanes : nullptr;
      float* p = m.p + rows.first / Words::kPerWord * kPanel + (c - c0) * kLanes;
      float *reference = tile.running.reference + c * kLanes, *sum = tile.running.sum + c * kLanes;
      const bool first = !tile.o.begun[c] && waiting[c].last == waiting[c].first;
      vf total =
          first ? vset(__builtin_inff()) : softmax_vector<Words>(vload(reference), column, n, unit, keep, p);
      if (vany_gt(total, vset(kMostStripSum))) {
        float rescale[kLanes];
        add_over_keys<Words>(tile.o, tile.q, k.start, c, c + 1, waiting, m.p, m.values);
        move_reference(tile.running, c, total, greatest_score(column, n, unit), rescale);
        rescale_output(tile.o, c, rescale);
        waiting[c].first = rows.first;
        total = softmax_vector<Words>(vload(reference), column, n, unit, keep, p);
      }
      vstore(sum, vadd(vload(sum), total));
      waiting[c].last = rows.last;
    }
  }
  add_over_keys<Words>(tile.o, tile.q, k.start, c0, c1, waiting, m.p, m.values);
}

/// Writes the rows of a tile. Rows that see none of the keys become 0 with an lse of -infinity; their sums
/// may be uninitialised.
template <class O>
HWS_SMALL void store_tile(const AttentionForward& args, int64_t b, const Tile& tile, const float* factor,
                          const float* lse) {
  const AttentionShape& s = args.s;
  const int64_t d = s.value_dim, width = padded_width(d);
  for (int r = 0; r < tile.q.n; ++r) {
    const int64_t head = tile.q.head[r], t = tile.q.query[r];
    O* row = static_cast<O*>(args.o) + (b * s.q_rows() + t) * s.o_stride + head * d;
    float& row_lse = args.lse[(b * s.heads + head) * s.q_rows() + t];
    if (tile.q.sees_nothing(r)) {
      clear_row(row, d);
      row_lse = -__builtin_inff();
      continue;
    }
    store_row(row, tile.o.out + r * width, d, factor[r]);
    row_lse = lse[r];
  }
}

/// Merges the rows of a tile into the result over other keys. Rows that see none of these keys are left
/// unchanged.
HWS_SMALL void merge_tile(const AttentionForward& args, int64_t b, const Tile& tile, const float* factor,
                          const float* lse) {
  const AttentionShape& s = args.s;
  const int64_t d = s.value_dim, width = padded_width(d);
  for (int r = 0; r < tile.q.n; ++r) {
    if (tile.q.sees_nothing(r)) continue;
    const int64_t head = tile.q.head[r], t = tile.q.query[r];
    float* row = static_cast<float*>(args.o) + (b * s.q_rows() + t) * s.o_stride + head * d;
    const Shares shares = merge_softmax(lse[r], args.lse[(b * s.heads + head) * s.q_rows() + t]);
    merge_row(row, tile.o.out + r * width, d, shares.others, shares.here * factor[r]);
  }
}

/// Sets *to to the larger of *to and x, atomically: several workers may update the same number.
inline void raise(float* to, float x) {
  float now;
  __atomic_load(to, &now, __ATOMIC_RELAXED);
  while (x > now && !__atomic_compare_exchange(to, &now, &x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

template <class E>
void end_tile(const AttentionForward& args, int64_t b, const Tile& tile) {
  const AttentionShape& s = args.s;
  const float kept = s.dropout.p > 0 ? 1.0f / (1.0f - s.dropout.p) : 1.0f;
  for (int r = 0; s.largest != nullptr && r < tile.q.n; ++r) {
    if (!tile.q.sees_nothing(r)) raise(s.largest + s.first_head + tile.q.head[r], tile.greatest[r]);
  }
  float factor[kTile], lse[kTile];
  end_softmax(tile.running, tile.q.vecs * kLanes, kept, factor, lse);
  if (args.merge) {
    merge_tile(args, b, tile, factor, lse);
  } else if (args.f32_out) {
    store_tile<float>(args, b, tile, factor, lse);
  } else {
    store_tile<E>(args, b, tile, factor, lse);
  }
}

/// Sets the rows of tile `index` of a key-value head; the heads of one range of queries are consecutive.
HWS_SMALL void cut_tile(const AttentionShape& s, const Cut& cut, int64_t b, int64_t kv_head, int64_t index,
                        QueryTile& q) {
  const int64_t first_head = index % cut.head_tiles * cut.heads_per_tile;
  const int64_t t0 = index / cut.head_tiles * kTile;
  const int64_t heads = least(cut.heads_per_tile, cut.group - first_head);
  const int64_t queries = least(cut.queries_per_tile, s.seq_q - t0);
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t head = kv_head * cut.group + first_head + h;
    set_rows(q, s, b, static_cast<int>(h * queries), static_cast<int>(queries), head, t0);
  }
  finish_rows(q, static_cast<int>(heads * queries));
}

template <class Words, class E>
void forward_tiles(const AttentionForward& args, const Cut& cut, int64_t b, int64_t kv_head, int64_t first,
                   int count, const Scratch& m) {
  const AttentionShape& s = args.s;
  const int64_t width = padded_width(s.value_dim), lines = kTile * line_words<Words>(s.head_dim);
  const E* zeros = reinterpret_cast<const E*>(m.zeros);
  zero(m.zeros, padded_width(most(s.head_dim, s.value_dim)));
  Tile tiles[kMostTiles];
  int64_t lo = INT32_MAX, hi = -1;
  for (int i = 0; i < count; ++i) {
    cut_tile(s, cut, b, kv_head, first + i, tiles[i].q);
    if (tiles[i].q.sees_nothing()) continue;
    lo = least(lo, tiles[i].q.lo);
    hi = most(hi, tiles[i].q.hi);
  }
  const int64_t at = b * s.kv_batch_rows * s.kv_stride;
  const E* keys = static_cast<const E*>(args.k) + at + kv_head * s.head_dim;
  const E* values = static_cast<const E*>(args.v) + at + kv_head * s.value_dim;
  const auto fetch_keys = [&](int64_t start, int i, int n) {
    fetch_rows(keys, s.kv_stride, most(start, lo), least(start + kTile - 1, hi), s.head_dim, i, n);
    fetch_rows(values, s.kv_stride, most(start, lo), least(start + kTile - 1, hi), s.value_dim, i, n);
  };
  fetch_keys(lo / kTile * kTile, 0, 1);
  for (int i = 0; i < count; ++i) {
    tiles[i].columns = m.columns + i * lines;
    begin_sums(tiles[i].o, m.o + i * kTile * width, width);
    begin_tile<Words>(args, b, tiles[i], zeros);
  }
  for (int64_t start = lo / kTile * kTile; start <= hi; start += kTile) {
    const int used = static_cast<int>(least(kTile, round_up(hi + 1 - start, kRows)));
    RowPointers<E> rows;
    point_to_keys(rows, used, keys, s.kv_stride, start, lo, hi, zeros);
    pack_lines<Words>(m.keys, rows, used, s.head_dim);
    point_to_keys(rows, used, values, s.kv_stride, start, lo, hi, zeros);
    pack_across<Words>(m.values, rows, used, s.value_dim);
    for (int i = 0; i < count; ++i) {
      fetch_keys(start + kTile, i, count);
      if (tiles[i].q.lo >= start + kTile || tiles[i].q.hi < start || tiles[i].q.sees_nothing()) continue;
      const KeyTile k = key_tile(tiles[i].q, start);
      if (s.dropout.p > 0) dropout_tile(m.keep, s, b, tiles[i].q, k);
      for (int panel = 0; panel * kCols < tiles[i].q.vecs; ++panel) {
        meet_keys<Words>(s, tiles[i], panel, k, rows_of_panel(k, tiles[i].q, panel), m);
      }
    }
  }
  for (int i = 0; i < count; ++i) end_tile<E>(args, b, tiles[i]);
}

/// Runs the tasks. The first half of the heads comes first, so that two workers start with equal parts.
/// Within a half, tasks go from the last query tiles (the longest under a causal mask) to the first.
template <class Words, class E>
void forward(const AttentionForward& args, Stream& stream) {
  const AttentionShape& s = args.s;
  const Cut cut = cut_queries(s);
  const int64_t kv_heads = s.batch * s.kv_heads, half = (kv_heads + 1) / 2;
  parallel(stream, kv_heads * cut.tasks, [&](int64_t task, int32_t worker) {
    const bool second = task >= half * cut.tasks;
    const int64_t in_half = second ? task - half * cut.tasks : task, heads = second ? kv_heads - half : half;
    const int64_t first = (cut.tasks - 1 - in_half / heads) * cut.tiles_per_task;
    const int count = static_cast<int>(least(cut.tiles_per_task, cut.head_tiles * cut.query_tiles - first));
    const int64_t head = in_half % heads + (second ? half : 0), b = head / s.kv_heads,
                  kv_head = head % s.kv_heads;
    forward_tiles<Words, E>(args, cut, b, kv_head, first, count, scratch_of<Words>(args, worker));
  });
}

}  // namespace

int64_t attention_forward_workspace_bytes(const AttentionForward& said, int32_t num_workers) {
  const AttentionForward args = with_value_dim(said);
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_q <= 0 || s.kv_heads <= 0) return 0;
  const int64_t floats = with_words(s, [&](auto words, auto) { return scratch_floats<decltype(words)>(s); });
  return num_workers * floats * static_cast<int64_t>(sizeof(float));
}

void attention_forward(const AttentionForward& said, Stream& stream) {
  const AttentionForward args = with_value_dim(said);
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_q <= 0 || s.heads <= 0 || s.head_dim <= 0) return;
  with_words(s, [&](auto words, auto element) { forward<decltype(words), decltype(element)>(args, stream); });
}

}  // namespace hawser::kernels::HWS_LEVEL
