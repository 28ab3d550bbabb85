// Attention backward (FlashAttention-2, algorithm 2). Probabilities are recomputed from the saved
// log-sum-exp. There is one task per key-value head and span of keys. A task processes its keys in chunks
// whose words and gradients stay in the caches (in L3, because packing the rows of queries again for every
// chunk would cost more than L3 latency). For each chunk, it visits the query heads of the group in ascending
// order and their query tiles, so that every product is computed once. dq accumulates over the chunks in
// memory. If there are few heads, the keys are divided into several spans; each span then produces its share
// of dq, and a second pass adds the shares in the order of the spans. The division depends only on the shape,
// not on the number of workers.
// workers.
#include "kernels/cpu/attention_dropout.h"
#include "kernels/cpu/attention_pack.h"
#include "kernels/cpu/attention_product.h"
#include "kernels/cpu/attention_softmax.h"
#include "kernels/cpu/attention_spans.h"
#include "kernels/cpu/attention_type.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Number of keys whose scores and probabilities stay in the first-level cache.
constexpr int kStrip = kLanes == 16 ? 32 : 16;
static_assert(kTile % kStrip == 0 && kStrip % kRows == 0);

/// One worker's memory. For the chunk: keys and values as lines, keys across (the same memory if both forms
/// are equal), and the gradients. For a query tile: q and dO in both forms, dq. For a strip: scores and
/// gradients of a panel, and words of all panels. For a tile: the words of ds across keys and the dropout
/// mask. For a span: delta of all its rows, [head of the group][query].
struct Scratch {
  float *keys, *values, *keys_across, *dkeys, *dvalues;
  float *q_columns, *dout_columns, *q_across, *dout_across, *dq;
  float *scores, *grads, *p, *ds, *ds_across, *keep;
  float *zeros, *delta;
  int64_t floats;
};

/// Places the arrays of Scratch for chunks of `keys` keys after `base`; with a null base it only counts their
/// floats.
template <class Words>
HWS_SMALL Scratch scratch_at(float* base, const AttentionShape& s, int64_t keys) {
  constexpr int kPer = Words::kPerWord;
  const int64_t width = padded_width(s.head_dim), line = line_words<Words>(s.head_dim);
  const int64_t v_width = padded_width(s.value_dim), v_line = line_words<Words>(s.value_dim);
  Scratch m;
  m.floats = 0;
  const auto take = [&m, base](int64_t floats) {
    float* const taken = base == nullptr ? nullptr : base + m.floats;
    m.floats += round_up(floats, 16);
    return taken;
  };
  m.keys = take(keys * line);
  m.values = take(keys * v_line);
  m.keys_across = kPer == 1 ? m.keys : take(keys / kPer * width);
  m.dkeys = take(keys * width);
  m.dvalues = take(keys * v_width);
  m.q_columns = take(kTile * line);
  m.dout_columns = take(kTile * v_line);
  m.q_across = take(kTile / kPer * width);
  m.dout_across = take(kTile / kPer * v_width);
  m.dq = take(kTile * width);
  m.scores = take(kStrip * kPanel);
  m.grads = take(kStrip * kPanel);
  m.p = take(kStrip * kTile / kPer);
  m.ds = take(kStrip * kTile / kPer);
  m.ds_across = take(kTile * kTile / kPer);
  m.keep = take(kKeepFloats);
  if (base != nullptr) m.keep += kKeepBefore * kTile;
  m.zeros = take(padded_width(most(s.head_dim, s.value_dim)));
  m.delta = take(s.heads / s.kv_heads * s.seq_q);
  return m;
}

template <class Words>
inline int64_t scratch_floats(const AttentionShape& s, int64_t keys) {
  return scratch_at<Words>(nullptr, s, keys).floats;
}

/// Returns dout · o. dout is rounded as in the words, so that the result cancels dout · v exactly if a query
/// sees one key.
template <class Words, class E>
HWS_INLINE float delta_of(const E* dout, const E* o, int64_t d) {
  vf sum = vzero();
  for (int64_t j = 0; j < d; j += kLanes) {
    const int n = static_cast<int>(least(d - j, kLanes));
    sum = vfma(Words::rounded(load_n(dout + j, n)), load_n(o + j, n), sum);
  }
  return vsum(sum);
}

/// Packs the rows of a query tile in both forms and fills `saved`. The first chunk of a span that the tile
/// sees computes delta; later chunks reuse it. Rows that see none of the keys are not read.
template <class Words, class E>
void load_queries(const AttentionBackward& args, int64_t b, int64_t head, const QueryTile& q, bool first_seen,
                  const Scratch& m, SavedRows& saved) {
  const AttentionShape& s = args.s;
  const E* zeros = reinterpret_cast<const E*>(m.zeros);
  const int64_t at_query = head * s.head_dim, at_out = head * s.value_dim;
  float* const delta = m.delta + head % (s.heads / s.kv_heads) * s.seq_q;
  const int rows = q.vecs * kLanes;
  RowPointers<E> query, dout;
  for (int r = 0; r < rows; ++r) {
    const int64_t row = b * s.q_rows() + q.query[r];
    const bool sees = r < q.n && !q.sees_nothing(r);
    query.row[r] = sees ? static_cast<const E*>(args.q) + row * s.q_stride + at_query : zeros;
    dout.row[r] = sees ? static_cast<const E*>(args.dout) + row * s.o_stride + at_out : zeros;
    saved.lse2[r] = saved.delta[r] = 0;
    if (!sees) continue;
    if (first_seen) {
      const E* const o = static_cast<const E*>(args.o) + row * s.o_stride + at_out;
      delta[q.query[r]] = delta_of<Words>(dout.row[r], o, s.value_dim);
    }
    saved.delta[r] = delta[q.query[r]];
    saved.lse2[r] = args.lse[(b * s.heads + head) * s.q_rows() + q.query[r]] * -kLog2E;
  }
  pack_columns<Words>(m.q_columns, query, q.vecs, s.head_dim);
  pack_columns<Words>(m.dout_columns, dout, q.vecs, s.value_dim);
  pack_across<Words>(m.q_across, query, rows, s.head_dim);
  pack_across<Words>(m.dout_across, dout, rows, s.value_dim);
}

/// Computes scores and gradients of one panel of queries on the key rows `strip`, and the resulting words.
template <class Words>
HWS_NOINLINE void backward_panel(const AttentionShape& s, const QueryTile& q, int panel, const KeyTile& k,
                                 RowRange strip, const float* keys, const float* values,
                                 const SavedRows& saved, const Scratch& m) {
  constexpr int kPer = Words::kPerWord;
  const int64_t line = line_words<Words>(s.head_dim), v_line = line_words<Words>(s.value_dim);
  transposed_product<Words>(m.scores, panel, k, strip, keys, line,
                            m.q_columns + in_panels(panel * kCols, line), words_in<Words>(s.head_dim));
  transposed_product<Words>(m.grads, panel, k, strip, values, v_line,
                            m.dout_columns + in_panels(panel * kCols, v_line), words_in<Words>(s.value_dim));
  for (int c = panel * kCols; c < least((panel + 1) * kCols, q.vecs); ++c) {
    const RowRange rows = rows_of_vector(k, c, strip);
    if (rows.first >= rows.last) continue;
    const int64_t in_strip = rows.first - strip.first;
    const int64_t at = in_strip * kPanel + c % kCols * kLanes,
                  line_at = (in_strip * kTile + c * kLanes) / kPer;
    const GradientWords out = {m.p + line_at, m.ds + line_at,
                               m.ds_across + in_panels(c, kTile / kPer) + rows.first / kPer * kPanel};
    softmax_backward<Words>(s, q, k, c, rows, saved, m.scores + at, m.grads + at,
                            s.dropout.p > 0 ? m.keep + rows.first * kTile + c * kLanes : nullptr, out);
  }
}

/// Processes one query tile and one key tile, whose rows begin at row `at` of the chunk. Calls fetch(i)
/// before strip i.
template <class Words, class Fetch>
void backward_tiles(const AttentionShape& s, int64_t b, const QueryTile& q, const KeyTile& k, int64_t at,
                    const SavedRows& saved, QuerySums& dq, const Scratch& m, const Fetch& fetch) {
  const int64_t width = padded_width(s.head_dim), line = line_words<Words>(s.head_dim);
  const int64_t v_width = padded_width(s.value_dim), v_line = line_words<Words>(s.value_dim);
  BlockQueries queries;
  find_queries_of_blocks(queries, q, k, Words::kPerWord == 1);
  if (s.dropout.p > 0) dropout_tile(m.keep, s, b, q, k);
  for (int from = k.first / kStrip * kStrip; from < k.last; from += kStrip) {
    const RowRange strip = {from, static_cast<int>(least(from + kStrip, k.last))};
    fetch(from / kStrip);
    fetch_floats(m.dvalues + (at + from) * v_width, (strip.last - from) * v_width);
    fetch_floats(m.dkeys + (at + from) * width, (strip.last - from) * width);
    for (int panel = 0; panel * kCols < q.vecs; ++panel) {
      backward_panel<Words>(s, q, panel, k, strip, m.keys + at * line, m.values + at * v_line, saved, m);
    }
    add_over_queries<Words>(m.dvalues + at * v_width, queries, strip, m.p, m.dout_across, v_width);
    add_over_queries<Words>(m.dkeys + at * width, queries, strip, m.ds, m.q_across, width);
  }
  for (int c = 0; c < q.vecs; c += kCols) {
    add_over_keys<Words>(dq, q, k.start, c, static_cast<int>(least(c + kCols, q.vecs)), k.vec,
                         m.ds_across + in_panels(c, kTile / Words::kPerWord),
                         m.keys_across + at / Words::kPerWord * width);
  }
}

/// Prefetches part i of n of the rows of dq to which the query tile `q` will be added, and of the rows that
/// load_queries will read for the next tile.
template <class E>
void fetch_next_queries(const AttentionBackward& args, int64_t b, int64_t head, const QueryTile& q,
                        bool first_chunk, const QueryGradient& out, int i, int n) {
  const AttentionShape& s = args.s;
  const int64_t first = b * s.q_rows() + q.query[0] + kTile,
                last = least(first + kTile, b * s.q_rows() + s.seq_q) - 1, at = head * s.head_dim,
                at_out = head * s.value_dim;
  const int64_t here = out.row(b, q.query[0]);
  fetch_rows(out.head(s, head), out.stride, here, here + q.n - 1, s.head_dim, i, n);
  fetch_rows(static_cast<const E*>(args.q) + at, s.q_stride, first, last, s.head_dim, i, n);
  fetch_rows(static_cast<const E*>(args.dout) + at_out, s.o_stride, first, last, s.value_dim, i, n);
  if (first_chunk)
    fetch_rows(static_cast<const E*>(args.o) + at_out, s.o_stride, first, last, s.value_dim, i, n);
}

/// Processes one query tile of one head on the keys [begin, end) of the chunk. The first chunk of a span
/// initialises dq.
template <class Words, class E>
void backward_queries(const AttentionBackward& args, int64_t b, int64_t head, const QueryTile& q,
                      int64_t begin, int64_t end, bool first_chunk, const QueryGradient& out,
                      const Scratch& m) {
  const AttentionShape& s = args.s;
  const int64_t width = padded_width(s.head_dim);
  const SeenKeys seen = seen_of(q, begin, end);
  const bool begins = first_chunk && !out.begun, first_seen = first_chunk || q.lo >= begin;
  if (!seen.any() && !begins) return;
  QuerySums dq;
  begin_sums(dq, m.dq, width);
  if (seen.any()) {
    const int64_t lo = seen.from / kTile * kTile, hi = seen.end;
    SavedRows saved;
    load_queries<Words, E>(args, b, head, q, first_seen, m, saved);
    constexpr int kStrips = kTile / kStrip;
    const int strips = static_cast<int>((hi - lo + kTile - 1) / kTile) * kStrips;
    for (int64_t start = lo; start < hi; start += kTile) {
      const int before = static_cast<int>((start - lo) / kTile) * kStrips;
      backward_tiles<Words>(s, b, q, key_tile(q, start), start - begin, saved, dq, m, [&](int strip) {
        fetch_next_queries<E>(args, b, head, q, first_seen, out, before + strip, strips);
      });
    }
  }
  end_sums(dq, q.vecs);
  for (int r = 0; r < q.n; ++r) {
    float* to = out.head(s, head) + out.row(b, q.query[r]) * out.stride;
    if (begins) {
      store_row(to, m.dq + r * width, s.head_dim, s.scale);
    } else if (!q.sees_nothing(r)) {
      add_row(to, m.dq + r * width, s.head_dim, s.scale);
    }
  }
}

/// dk and dv of a key-value head between two waves: f32 [keys, padded width] each.
struct KeySums {
  float *dkeys, *dvalues;
};

/// Packs the key tile from `start` on as row `row` of the chunk. Its gradients begin with 0 or, if earlier
/// heads of the group have added to them, with `sums`. `last` is the last existing key.
template <class Words, class E>
void load_keys(const AttentionBackward& args, int64_t b, int64_t kv_head, int64_t start, int64_t last,
               int64_t row, const KeySums* sums, const Scratch& m) {
  const AttentionShape& s = args.s;
  constexpr int kPer = Words::kPerWord;
  const int64_t width = padded_width(s.head_dim), v_width = padded_width(s.value_dim),
                at = b * s.kv_batch_rows * s.kv_stride;
  const E* keys = static_cast<const E*>(args.k) + at + kv_head * s.head_dim;
  const E* values = static_cast<const E*>(args.v) + at + kv_head * s.value_dim;
  const E* zeros = reinterpret_cast<const E*>(m.zeros);
  const int used = static_cast<int>(least(kTile, round_up(last + 1 - start, kRows)));
  RowPointers<E> rows;
  point_to_keys(rows, used, values, s.kv_stride, start, start, last, zeros);
  pack_lines<Words>(m.values + row * line_words<Words>(s.value_dim), rows, used, s.value_dim);
  point_to_keys(rows, used, keys, s.kv_stride, start, start, last, zeros);
  pack_lines<Words>(m.keys + row * line_words<Words>(s.head_dim), rows, used, s.head_dim);
  if (kPer > 1) pack_across<Words>(m.keys_across + row / kPer * width, rows, used, s.head_dim);
  if (sums == nullptr) {
    zero(m.dkeys + row * width, used * width);
    zero(m.dvalues + row * v_width, used * v_width);
  } else {
    copy(m.dkeys + row * width, sums->dkeys + start * width, used * width);
    copy(m.dvalues + row * v_width, sums->dvalues + start * v_width, used * v_width);
  }
  fetch_rows(keys, s.kv_stride, start + kTile, least(start + 2 * kTile - 1, last), s.head_dim, 0, 1);
  fetch_rows(values, s.kv_stride, start + kTile, least(start + 2 * kTile - 1, last), s.value_dim, 0, 1);
}

/// Processes the keys [span_begin, span_end) for some heads of a group.
template <class Words, class E>
void backward_span(const AttentionBackward& args, const Heads& heads, int64_t span_begin, int64_t span_end,
                   const QueryGradient& out, const KeySums& sums, const Scratch& m) {
  const AttentionShape& s = args.s;
  const int64_t group = s.heads / s.kv_heads, chunk = cut_keys(s).chunk;
  const bool first_heads = heads.first % group == 0, last_heads = heads.last % group == 0;
  zero(m.zeros, padded_width(most(s.head_dim, s.value_dim)));
  for (int64_t begin = span_begin; begin < span_end; begin += chunk) {
    const int64_t end = least(begin + chunk, span_end);
    int64_t loaded = begin;
    SeenKeys met = {end, begin};
    for (int64_t head = heads.first; head < heads.last; ++head) {
      for (int64_t t0 = first_query(s, begin); t0 < s.seq_q; t0 += kTile) {
        // A key tile is loaded when the first tile of queries reaches its columns, because that tile is the
        // first to use it.
        for (; loaded < end && loaded < key_below(s) + t0 + kTile; loaded += kTile)
          load_keys<Words, E>(args, heads.b, heads.kv_head, loaded, end - 1, loaded - begin,
                              first_heads ? nullptr : &sums, m);
        QueryTile q;
        const int n = static_cast<int>(least(kTile, s.seq_q - t0));
        set_rows(q, s, heads.b, 0, n, head, t0);
        finish_rows(q, n);
        const SeenKeys seen = seen_of(q, begin, end);
        if (seen.any()) met = {least(met.from, seen.from), most(met.end, seen.end)};
        backward_queries<Words, E>(args, heads.b, head, q, begin, end, begin == span_begin, out, m);
      }
    }
    if (!last_heads) {
      const int64_t width = padded_width(s.head_dim), v_width = padded_width(s.value_dim);
      copy(sums.dkeys + begin * width, m.dkeys, (loaded - begin) * width);
      copy(sums.dvalues + begin * v_width, m.dvalues, (loaded - begin) * v_width);
    } else if (has_f32_gradients(args)) {
      store_keys<float>(args, heads.b, heads.kv_head, begin, end, met, m.dkeys, m.dvalues);
    } else {
      store_keys<E>(args, heads.b, heads.kv_head, begin, end, met, m.dkeys, m.dvalues);
    }
  }
}

/// Processes a wave: heads first..first + wave.heads of the groups [begin, end). `memory` holds the shares of
/// the wave and, after them, dk and dv of all groups if several waves share a group.
template <class Words, class E>
void backward_wave(const AttentionBackward& args, const Spans& spans, const Wave& wave, int64_t begin,
                   int64_t end, int64_t first, float* workers_memory, float* memory, Stream& stream) {
  const AttentionShape& s = args.s;
  const int64_t group = s.heads / s.kv_heads, groups = end - begin, heads = least(wave.heads, group - first);
  const int64_t worker_floats = scratch_floats<Words>(s, spans.chunk), width = heads * s.head_dim,
                between = groups * s.seq_q * width;  // floats between the shares of two spans
  const bool in_shares = gathers_in_shares(args, spans.count);
  float* const sums = memory + spans.count * wave.groups * s.seq_q * wave.heads * s.head_dim;
  const auto heads_of = [&](int64_t i) {
    const int64_t kv_head = (begin + i) % s.kv_heads, at = kv_head * group + first;
    return Heads{(begin + i) / s.kv_heads, kv_head, at, at + heads};
  };
  // The first span starts first, because under a causal mask it has the most queries.
  parallel(stream, groups * spans.count, [&](int64_t task, int32_t worker) {
    const int64_t span = task / groups, i = task % groups;
    const Heads of = heads_of(i);
    const QueryGradient out =
        in_shares
            ? QueryGradient{memory + span * between + i * s.seq_q * width, 0, width, of.first, false}
            : QueryGradient{static_cast<float*>(args.dq), s.q_rows(), dq_stride(args), 0, args.accumulate_q};
    float* const dkeys = sums + (begin + i) * (dkeys_floats(s) + dvalues_floats(s));
    const KeySums kept = {dkeys, dkeys + dkeys_floats(s)};
    backward_span<Words, E>(args, of, span * spans.keys, least((span + 1) * spans.keys, s.seq_k), out, kept,
                            scratch_at<Words>(workers_memory + worker * worker_floats, s, spans.chunk));
  });
  if (!in_shares) return;
  parallel_ranges(stream, groups * s.seq_q, 32, [&](int64_t from, int64_t to) {
    for (int64_t i = from / s.seq_q; i * s.seq_q < to; ++i) {
      const int64_t t = most(from - i * s.seq_q, 0), last = least(to - i * s.seq_q, s.seq_q);
      const float* const shares = memory + i * s.seq_q * width;
      if (has_f32_gradients(args)) {
        add_shares_of_rows<float>(args, spans, heads_of(i), shares, between, t, last);
      } else {
        add_shares_of_rows<E>(args, spans, heads_of(i), shares, between, t, last);
      }
    }
  });
}

template <class Words, class E>
void backward(const AttentionBackward& args, Stream& stream) {
  const AttentionShape& s = args.s;
  const Spans spans = cut_keys(s);
  const Wave wave = cut_heads(args, spans.count, stream.num_workers);
  const int64_t groups = s.batch * s.kv_heads;
  float* const base = static_cast<float*>(args.workspace);
  float* const memory = base + stream.num_workers * scratch_floats<Words>(s, spans.chunk);
  for (int64_t begin = 0; begin < groups; begin += wave.groups) {
    for (int64_t first = 0; first < s.heads / s.kv_heads; first += wave.heads)
      backward_wave<Words, E>(args, spans, wave, begin, least(begin + wave.groups, groups), first, base,
                              memory, stream);
  }
}

}  // namespace

int64_t attention_backward_workspace_bytes(const AttentionBackward& said, int32_t num_workers) {
  const AttentionBackward args = with_value_dim(said);
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.seq_k <= 0 || s.kv_heads <= 0) return 0;
  const Spans largest = largest_spans(s);
  const int64_t scratch =
      with_words(s, [&](auto words, auto) { return scratch_floats<decltype(words)>(s, largest.chunk); });
  return (num_workers * scratch + wave_floats(args, largest.count, num_workers)) *
         static_cast<int64_t>(sizeof(float));
}

void attention_backward(const AttentionBackward& said, Stream& stream) {
  const AttentionBackward args = with_value_dim(said);
  const AttentionShape& s = args.s;
  if (s.batch <= 0 || s.heads <= 0 || s.head_dim <= 0) return;
  if (s.seq_k <= 0) return args.accumulate_q ? void() : clear_queries(args);
  with_words(s,
             [&](auto words, auto element) { backward<decltype(words), decltype(element)>(args, stream); });
}

}  // namespace hawser::kernels::HWS_LEVEL
