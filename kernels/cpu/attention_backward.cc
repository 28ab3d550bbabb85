// Attention backward (FlashAttention-2, algorithm 2) with the probabilities made again from the saved
// log-sum-exp. One task per key-value head and span of keys: it holds K, V and their gradients of the span in
// fp32, walks the query heads of the group in ascending order and for each the query tiles, and so meets
// every product once. Where there are few heads the keys are cut into several spans; each then leaves its
// share of dq, and a second pass adds the shares in the order of the spans. The cut depends on the shape
// alone, not on the workers.
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kWantedTasks = 16, kMostSpans = 8, kLeastSpanTiles = 4;

/// Spans of `keys` keys, a multiple of kTile.
struct Spans {
  int64_t count, keys;
};

inline Spans cut_keys(const AttentionShape& s) {
  const int64_t tiles = (s.seq_k + kTile - 1) / kTile, groups = s.batch * s.kv_heads;
  const int64_t wanted = least(kMostSpans, (kWantedTasks + groups - 1) / groups);
  const int64_t spans = most(1, least(wanted, tiles / kLeastSpanTiles));
  const int64_t tiles_per_span = (tiles + spans - 1) / spans;
  return {(tiles + tiles_per_span - 1) / tiles_per_span, tiles_per_span * kTile};
}

/// One worker's memory, all fp32: rows of the span; rows and columns of a query tile; products of a tile
/// pair.
struct Scratch {
  float *keys, *values, *dkeys, *dvalues;
  float *q, *dout, *dq, *q_columns, *dout_columns;
  float *scores, *grads, *keep;
};

inline int64_t scratch_floats(const AttentionShape& s) {
  return (4 * cut_keys(s).keys + 5 * kTile) * round_up(s.head_dim, kLanes) + 3 * kTile * kTile;
}

inline Scratch scratch_of(const AttentionBackward& args, int32_t worker) {
  const int64_t width = round_up(args.s.head_dim, kLanes);
  const int64_t span = cut_keys(args.s).keys * width, tile = kTile * width;
  float* base = static_cast<float*>(args.workspace) + worker * scratch_floats(args.s);
  float* rows = base + 4 * span;
  float* products = rows + 5 * tile;
  return {.keys = base,
          .values = base + span,
          .dkeys = base + 2 * span,
          .dvalues = base + 3 * span,
          .q = rows,
          .dout = rows + tile,
          .dq = rows + 2 * tile,
          .q_columns = rows + 3 * tile,
          .dout_columns = rows + 4 * tile,
          .scores = products,
          .grads = products + kTile * kTile,
          .keep = products + 2 * kTile * kTile};
}

/// The shares of dq that spans leave: [span][batch, seq, heads, head_dim], after the workers' scratch.
inline float* dq_shares(const AttentionBackward& args, int32_t num_workers) {
  return static_cast<float*>(args.workspace) + num_workers * scratch_floats(args.s);
}

/// One head of one query tile: what its rows saved.
struct SavedRows {
  float lse[kTile], delta[kTile];  // delta = dout . o
};

/// For one vector of queries: scores become probabilities (after dropout), grads the gradient of the scores
/// before the soft-cap.
inline void softmax_backward(const AttentionShape& s, const QueryTile& q, const KeyTile& k, int c,
                             const SavedRows& saved, const Scratch& m) {
  const LaneRange range = lane_range(q, k, c);
  const vf lse = vload(saved.lse + c * kLanes), delta = vload(saved.delta + c * kLanes);
  const vf cap = vset(s.softcap), inverse_cap = vset(s.softcap > 0 ? 1.0f / s.softcap : 0.0f),
           one = vset(1.0f);
  const vf kept = vset(s.dropout.p > 0 ? 1.0f / (1.0f - s.dropout.p) : 1.0f);
  const bool capped = s.softcap > 0, masked = k.masked[c], dropped = s.dropout.p > 0;
  for (int row = k.vec_first[c]; row < k.vec_last[c]; ++row) {
    const int64_t at = row * kTile + c * kLanes;
    vf score = vload(m.scores + at), slope = one;
    if (capped) {
      const vf ratio = vtanh(vmul(score, inverse_cap));
      slope = vfnma(ratio, ratio, one);
      score = vmul(cap, ratio);
    }
    if (masked) score = mask_scores(range, row, score);
    const vf p = vexp(vsub(score, lse));
    vf p_kept = p, dp = vload(m.grads + at);
    if (dropped) {
      const vf factor = vmul(kept, vload(m.keep + at));
      p_kept = vmul(p, factor);
      dp = vmul(dp, factor);
    }
    vf ds = vmul(p, vsub(dp, delta));
    if (capped) ds = vmul(ds, slope);
    vstore(m.scores + at, p_kept);
    vstore(m.grads + at, ds);
  }
}

/// Loads the rows of a query tile (q times scale) and transposes them; fills in `saved`.
template <class E>
void load_queries(const AttentionBackward& args, int64_t b, int64_t head, const QueryTile& q,
                  const Scratch& m, SavedRows& saved) {
  const AttentionShape& s = args.s;
  const int64_t width = round_up(s.head_dim, kLanes), rows = q.vecs * kLanes;
  for (int i = 0; i < kTile; ++i) saved.lse[i] = saved.delta[i] = 0;
  for (int r = 0; r < q.n; ++r) {
    const int64_t row = b * s.seq_q + q.query[r], at_o = row * s.o_stride + head * s.head_dim;
    load_row(m.q + r * width, static_cast<const E*>(args.q) + row * s.q_stride + head * s.head_dim,
             s.head_dim, width, s.scale);
    load_row(m.dout + r * width, static_cast<const E*>(args.dout) + at_o, s.head_dim, width, 1.0f);
    load_row(m.dq, static_cast<const E*>(args.o) + at_o, s.head_dim, width, 1.0f);
    vf sum = vzero();
    for (int64_t j = 0; j < width; j += kLanes)
      sum = vfma(vload(m.dout + r * width + j), vload(m.dq + j), sum);
    saved.delta[r] = vsum(sum);
    saved.lse[r] = args.lse[(b * s.heads + head) * s.seq_q + q.query[r]];
  }
  zero(m.q + q.n * width, (rows - q.n) * width);
  zero(m.dout + q.n * width, (rows - q.n) * width);
  transpose(m.q_columns, m.q, width, q.vecs);
  transpose(m.dout_columns, m.dout, width, q.vecs);
}

/// One query tile of one head against the keys [begin, end) that the scratch holds.
template <class E>
void backward_tile(const AttentionBackward& args, int64_t b, int64_t head, const QueryTile& q, int64_t begin,
                   int64_t end, const Scratch& m) {
  const AttentionShape& s = args.s;
  const int64_t width = round_up(s.head_dim, kLanes);
  const int64_t lo = most(q.lo, begin) / kTile * kTile, hi = least(q.hi + 1, end);
  if (lo < hi) {
    SavedRows saved;
    load_queries<E>(args, b, head, q, m, saved);
    zero(m.dq, q.vecs * kLanes * width);
    for (int64_t start = lo; start < hi; start += kTile) {
      const KeyTile k = key_tile(q, start);
      const int64_t at = (start - begin) * width;
      transposed_product(m.scores, k, m.keys + at, width, m.q_columns, s.head_dim);
      transposed_product(m.grads, k, m.values + at, width, m.dout_columns, s.head_dim);
      if (s.dropout.p > 0) dropout_tile(m.keep, s, b, q, k);
      for (int c = 0; c < q.vecs; ++c) softmax_backward(s, q, k, c, saved, m);
      add_over_queries(m.dvalues + at, k, m.scores, m.dout, width);
      add_over_queries(m.dkeys + at, k, m.grads, m.q, width);
      add_over_keys(m.dq, q, k, m.grads, m.keys + at, width);
    }
  } else {
    zero(m.dq, q.vecs * kLanes * width);
  }
}

template <class E>
void load_span(const AttentionBackward& args, int64_t at, int64_t rows, const Scratch& m) {
  const int64_t width = round_up(args.s.head_dim, kLanes), padded = round_up(rows, kRows);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t from = at + r * args.s.kv_stride;
    load_row(m.keys + r * width, static_cast<const E*>(args.k) + from, args.s.head_dim, width, 1.0f);
    load_row(m.values + r * width, static_cast<const E*>(args.v) + from, args.s.head_dim, width, 1.0f);
  }
  zero(m.keys + rows * width, (padded - rows) * width);
  zero(m.values + rows * width, (padded - rows) * width);
  zero(m.dkeys, padded * width);
  zero(m.dvalues, padded * width);
}

template <class E>
void backward_span(const AttentionBackward& args, int64_t b, int64_t kv_head, int64_t span,
                   const Spans& spans, float* shares, const Scratch& m) {
  const AttentionShape& s = args.s;
  const int64_t width = round_up(s.head_dim, kLanes), group = s.heads / s.kv_heads;
  const int64_t begin = span * spans.keys, end = least(begin + spans.keys, s.seq_k);
  const int64_t at = (b * s.kv_batch_rows + begin) * s.kv_stride + kv_head * s.head_dim;
  load_span<E>(args, at, end - begin, m);
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t t0 = begin; t0 < s.seq_q; t0 += kTile) {
      QueryTile q;
      const int n = static_cast<int>(least(kTile, s.seq_q - t0));
      for (int r = 0; r < n; ++r) set_row(q, s, b, r, head, t0 + r);
      finish_rows(q, n);
      backward_tile<E>(args, b, head, q, begin, end, m);
      for (int r = 0; r < n; ++r) {
        const int64_t row = b * s.seq_q + t0 + r;
        if (spans.count == 1) {
          E* dq = static_cast<E*>(args.dq) + row * s.q_stride + head * s.head_dim;
          store_row(dq, m.dq + r * width, s.head_dim, s.scale);
        } else {
          float* share = shares + ((span * s.batch * s.seq_q + row) * s.heads + head) * s.head_dim;
          store_row(share, m.dq + r * width, s.head_dim, s.scale);
        }
      }
    }
  }
  for (int64_t r = 0; r < end - begin; ++r) {
    const int64_t to = at + r * s.kv_stride;
    store_row(static_cast<E*>(args.dk) + to, m.dkeys + r * width, s.head_dim, 1.0f);
    store_row(static_cast<E*>(args.dv) + to, m.dvalues + r * width, s.head_dim, 1.0f);
  }
}

/// dq of one query row of all heads: the shares of the spans that its tile met, in ascending order.
template <class E>
void add_shares(const AttentionBackward& args, const Spans& spans, const float* shares, int64_t row) {
  const AttentionShape& s = args.s;
  const int64_t n = s.heads * s.head_dim, between = s.batch * s.seq_q * n;
  const int64_t met = least(spans.count, row % s.seq_q / kTile * kTile / spans.keys + 1);
  E* dq = static_cast<E*>(args.dq) + row * s.q_stride;
  for (int64_t j = 0; j < n; j += kLanes) {
    const int lanes = static_cast<int>(least(kLanes, n - j));
    vf sum = vload_n(shares + row * n + j, lanes);
    for (int64_t i = 1; i < met; ++i) sum = vadd(sum, vload_n(shares + i * between + row * n + j, lanes));
    store_n(dq + j, sum, lanes);
  }
}

template <class E>
void backward(const AttentionBackward& args, Stream& stream) {
  const AttentionShape& s = args.s;
  const Spans spans = cut_keys(s);
  const int64_t groups = s.batch * s.kv_heads;
  float* shares = dq_shares(args, stream.num_workers);
  // The first span comes first: under a causal mask it meets the most queries.
  parallel(stream, groups * spans.count, [&](int64_t task, int32_t worker) {
    const int64_t span = task / groups, b = task % groups / s.kv_heads, kv_head = task % s.kv_heads;
    backward_span<E>(args, b, kv_head, span, spans, shares, scratch_of(args, worker));
  });
  if (spans.count == 1) return;
  parallel_ranges(stream, s.batch * s.seq_q, 32, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) add_shares<E>(args, spans, shares, row);
  });
}

}  // namespace

int64_t attention_backward_workspace_bytes(const AttentionBackward& args, int32_t num_workers) {
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_k <= 0 || s.kv_heads <= 0) return 0;
  const int64_t spans = cut_keys(s).count;
  const int64_t shares = spans > 1 ? spans * s.batch * s.seq_q * s.heads * s.head_dim : 0;
  return (num_workers * scratch_floats(s) + shares) * static_cast<int64_t>(sizeof(float));
}

void attention_backward(const AttentionBackward& args, Stream& stream) {
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_q <= 0 || s.heads <= 0 || s.head_dim <= 0) return;
  if (s.type == DType::kBf16) {
    backward<uint16_t>(args, stream);
  } else {
    backward<float>(args, stream);
  }
}

}  // namespace hawser::kernels::HWS_LEVEL
