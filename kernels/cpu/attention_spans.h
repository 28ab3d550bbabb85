// Divides keys into spans and chunks, and heads into waves, for attention backward (attention_backward.cc),
// and writes the gradients to the caller's memory: dq as the sum of the spans' shares, dk and dv from the
// chunk's memory.
#pragma once

#include <type_traits>

#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/attention_pack.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kWantedTasks = 16, kMostSpans = 8, kLeastSpanKeys = 384;
constexpr int64_t kChunkFloats =
    131072;  // keys times width (the mean of the widths of keys and values): at most 16 bytes each, 2 MiB

/// Spans of `keys` keys and chunks of `chunk`, multiples of kTile.
struct Spans {
  int64_t count, keys, chunk;
};

HWS_SMALL Spans cut_keys(const AttentionShape& s) {
  const int64_t tiles = (s.seq_k + kTile - 1) / kTile, groups = s.batch * s.kv_heads;
  const int64_t wanted = least(kMostSpans, (kWantedTasks + groups - 1) / groups);
  const int64_t spans = most(1, least(wanted, tiles * kTile / kLeastSpanKeys));
  const int64_t keys = (tiles + spans - 1) / spans * kTile;
  const int64_t both = padded_width(s.head_dim) + padded_width(s.value_dim);
  const int64_t chunk = most(kTile, kChunkFloats * 2 / both / kTile * kTile);
  return {(tiles * kTile + keys - 1) / keys, keys, least(chunk, keys)};
}

/// The longest chunk and the most spans for any number of keys up to this one. A single span of fewer keys
/// may be longer than each of several, and fewer keys may be divided into more spans. The workspace is
/// planned for the longest sequence and must suffice for all.
HWS_SMALL Spans largest_spans(AttentionShape s) {
  Spans largest = {0, 0, 0};
  for (; s.seq_k > 0; s.seq_k -= kTile) {
    const Spans spans = cut_keys(s);
    largest.chunk = most(largest.chunk, spans.chunk);
    largest.count = most(largest.count, spans.count);
  }
  return largest;
}

inline int64_t dq_stride(const AttentionBackward& args) {
  return args.dq_stride > 0 ? args.dq_stride : args.s.q_stride;
}
inline int64_t dkv_stride(const AttentionBackward& args) {
  return args.dkv_stride > 0 ? args.dkv_stride : args.s.kv_stride;
}

/// True if dq accumulates in a share for each span, which are added (and rounded) at the end; false if it
/// accumulates in the caller's memory.
inline bool gathers_in_shares(const AttentionBackward& args, int64_t spans) {
  return spans > 1 || !has_f32_gradients(args);
}

/// The heads that are processed at the same time: `heads` query heads of each of `groups` key-value heads.
/// Key-value heads are numbered across the batch.
struct Wave {
  int64_t groups, heads;
};

/// Number of key-value heads that gives each worker about four tasks, because some tasks take longer than
/// others; at least one.
inline int64_t busy_groups(int64_t spans, int32_t workers) { return most(1, 4 * workers / spans); }

/// Divides the heads into waves whose shares of dq fit into share_bytes. A wave exceeds share_bytes only to
/// keep the workers busy: it then has one query head of each of busy_groups() key-value heads, or of each of
/// all key-value heads if there are fewer.
HWS_SMALL Wave cut_heads(const AttentionBackward& args, int64_t spans, int32_t workers) {
  const AttentionShape& s = args.s;
  const int64_t groups = s.batch * s.kv_heads, group = s.heads / s.kv_heads;
  const int64_t head_bytes = spans * s.seq_q * s.head_dim * static_cast<int64_t>(sizeof(float));
  const int64_t fitting = args.share_bytes / most(1, head_bytes);
  if (!gathers_in_shares(args, spans) || fitting >= groups * group) return {groups, group};
  if (fitting < groups) {
    return {least(groups, most(fitting, busy_groups(spans, workers))), 1};
  }
  const int64_t waves = (group + fitting / groups - 1) / (fitting / groups);
  return {groups, (group + waves - 1) / waves};
}

/// Number of floats of dk of one key-value head: rows of padded width, with the number of keys rounded up
/// to a multiple of kTile. dvalues_floats() is the same for dv.
inline int64_t dkeys_floats(const AttentionShape& s) {
  return round_up(s.seq_k, kTile) * padded_width(s.head_dim);
}
inline int64_t dvalues_floats(const AttentionShape& s) {
  return round_up(s.seq_k, kTile) * padded_width(s.value_dim);
}

/// Number of floats that suffices for the shares of any wave and for keeping dk and dv between waves, for
/// this sequence length and all shorter ones.
HWS_SMALL int64_t wave_floats(const AttentionBackward& args, int64_t most_spans, int32_t workers) {
  const AttentionShape& s = args.s;
  const int64_t groups = s.batch * s.kv_heads, group = s.heads / s.kv_heads;
  const int64_t limit = args.share_bytes / static_cast<int64_t>(sizeof(float));
  int64_t floats = 0;
  for (int64_t spans = 1; spans <= most_spans; ++spans) {
    if (!gathers_in_shares(args, spans)) continue;
    const int64_t head = spans * s.seq_q * s.head_dim, all = head * groups * group;
    const int64_t busy = least(groups, busy_groups(spans, workers));
    floats =
        most(floats, all <= limit ? all
                                  : most(limit, busy * head) +
                                        (group > 1 ? groups * (dkeys_floats(s) + dvalues_floats(s)) : 0));
  }
  return floats;
}

/// The first query of the first tile whose columns reach key `begin`. For key 0 it is that of tile 0, so that
/// the first span initialises dq of every query.
inline int64_t first_query(const AttentionShape& s, int64_t begin) {
  const int64_t query = begin - key_below(s);
  return begin == 0 || query < 0 ? 0 : query / kTile * kTile;
}

/// The memory in which a span accumulates dq: its share, or the caller's dq.
struct QueryGradient {
  float* dq;
  int64_t batch_rows, stride, first_head;
  bool begun;  // true if all rows have a value before the first chunk

  float* head(const AttentionShape& s, int64_t h) const { return dq + (h - first_head) * s.head_dim; }
  int64_t row(int64_t b, int64_t t) const { return b * batch_rows + t; }
};

/// The keys [from, end), between `begin` and `end`, that a query tile sees. Empty if from >= end.
struct SeenKeys {
  int64_t from, end;
  bool any() const { return from < end; }
};

inline SeenKeys seen_of(const QueryTile& q, int64_t begin, int64_t end) {
  return {most(q.lo, begin), least(q.hi + 1, end)};
}

/// Writes the gradients of the chunk's keys [begin, end). Keys outside `met` were seen by no query: their
/// gradients become 0 or, if gradients accumulate, stay unchanged.
template <class G>
HWS_SMALL void store_keys(const AttentionBackward& args, int64_t b, int64_t kv_head, int64_t begin,
                          int64_t end, const SeenKeys& met, const float* dkeys, const float* dvalues) {
  const AttentionShape& s = args.s;
  const int64_t d = s.head_dim, v_d = s.value_dim, width = padded_width(d), v_width = padded_width(v_d);
  for (int64_t key = begin; key < end; ++key) {
    const int64_t at = (b * s.kv_batch_rows + key) * dkv_stride(args);
    const float *dkey = dkeys + (key - begin) * width, *dvalue = dvalues + (key - begin) * v_width;
    G *dk = static_cast<G*>(args.dk) + at + kv_head * d, *dv = static_cast<G*>(args.dv) + at + kv_head * v_d;
    const bool here = key >= met.from && key < met.end;
    if constexpr (std::is_same_v<G, float>) {
      if (args.accumulate_kv && here) {
        add_row(dk, dkey, d, s.scale);
        add_row(dv, dvalue, v_d, 1.0f);
      }
      if (args.accumulate_kv) continue;
    }
    if (here) {
      store_row(dk, dkey, d, s.scale);
      store_row(dv, dvalue, v_d, 1.0f);
    } else {
      clear_row(dk, d);
      clear_row(dv, v_d);
    }
  }
}

/// Query heads [first, last) of the key-value head `kv_head` of batch row b.
struct Heads {
  int64_t b, kv_head, first, last;
};

/// Computes dq of query t for these heads: adds the shares of the spans that its tile reached, in ascending
/// order. A share of the query begins `between` floats after the one before.
template <class G>
void add_shares(const AttentionBackward& args, const Spans& spans, const Heads& heads, const float* share,
                int64_t between, int64_t t) {
  const AttentionShape& s = args.s;
  const int64_t n = (heads.last - heads.first) * s.head_dim;
  const int64_t reached = key_below(s) + t / kTile * kTile + kTile - 1;  // the last key row that the tile
                                                                         // reaches
  const int64_t met = most(1, least(spans.count, reached / spans.keys + 1));
  G* dq = static_cast<G*>(args.dq) + (heads.b * s.q_rows() + t) * dq_stride(args) + heads.first * s.head_dim;
  for (int64_t j = 0; j < n; j += kLanes) {
    const int lanes = static_cast<int>(least(kLanes, n - j));
    vf sum = vload_n(share + j, lanes);
    for (int64_t i = 1; i < met; ++i) sum = vadd(sum, vload_n(share + i * between + j, lanes));
    if (args.accumulate_q) sum = vadd(load_n(dq + j, lanes), sum);
    store_n(dq + j, sum, lanes);
  }
}

/// Adds the shares of the queries first..last. If dq accumulates, rows that see none of the keys stay
/// unchanged.
template <class G>
HWS_SMALL void add_shares_of_rows(const AttentionBackward& args, const Spans& spans, const Heads& heads,
                                  const float* shares, int64_t between, int64_t first, int64_t last) {
  const AttentionShape& s = args.s;
  QueryTile q;
  for (int64_t t = first; t < last; ++t) {
    if (args.accumulate_q) set_rows(q, s, heads.b, 0, 1, 0, t);
    if (!args.accumulate_q || !q.sees_nothing(0))
      add_shares<G>(args, spans, heads, shares + t * (heads.last - heads.first) * s.head_dim, between, t);
  }
}

/// Sets dq if there are no keys.
HWS_SMALL void clear_queries(const AttentionBackward& args) {
  const AttentionShape& s = args.s;
  const int64_t n = s.heads * s.head_dim;
  for (int64_t row = 0; row < s.batch * s.seq_q; ++row) {
    const int64_t at = (row / s.seq_q * s.q_rows() + row % s.seq_q) * dq_stride(args);
    if (has_f32_gradients(args)) {
      clear_row(static_cast<float*>(args.dq) + at, n);
    } else {
      clear_row(static_cast<uint16_t*>(args.dq) + at, n);
    }
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
