// The softmax of a tile, a vector of queries at a time: scores times `unit` are exponents of 2; masks and
// soft-cap, the online form of the forward and the derivative of the backward.
#pragma once

#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/attention_words.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// A finished score is q·k, or under a soft-cap tanh(argument * q·k); its probability is 2^(unit * score -
/// ...).
struct ScoreUnits {
  float argument, unit;
};

inline ScoreUnits score_units(const AttentionShape& s) {
  if (s.softcap > 0) return {s.scale / s.softcap, s.softcap * kLog2E};
  return {1.0f, s.scale * kLog2E};
}

/// Running maximum and sum of each query row, and the factor that its output took at the last key tile.
struct Softmax {
  float max[kTile], sum[kTile], rescale[kTile];
};

/// Soft-cap and mask of rows first..last of a vector of queries.
inline void finish_scores(float* column, const AttentionShape& s, const QueryTile& q, const KeyTile& k,
                          int c) {
  const int first = k.vec_first[c], last = k.vec_last[c];
  if (s.softcap > 0) {
    const vf argument = vset(score_units(s).argument);
    for (int row = first; row < last; ++row) {
      vstore(column + row * kTile, vtanh(vmul(vload(column + row * kTile), argument)));
    }
  }
  if (k.masked[c]) {
    const LaneRange range = lane_range(q, k, c);
    for (int row = first; row < last; ++row) {
      vstore(column + row * kTile, mask_scores(range, row, vload(column + row * kTile)));
    }
  }
}

/// Turns a vector of queries' scores into probabilities relative to the running maximum, in place, as words
/// across keys (after dropout, but for its factor).
template <class Words>
inline void softmax_vector(const AttentionShape& s, const QueryTile& q, const KeyTile& k, int c,
                           float* scores, const float* keep, Softmax& running) {
  const int first = k.vec_first[c], last = k.vec_last[c];
  float* column = scores + c * kLanes;
  if (s.softcap > 0 || k.masked[c]) finish_scores(column, s, q, k, c);
  const vf old_max = vload(running.max + c * kLanes), unit = vset(score_units(s).unit);
  vf max[kRows], sum[kRows];
  for (int r = 0; r < kRows; ++r) max[r] = vset(kMasked);
  for (int row = first; row < last; row += kRows) {
    for (int r = 0; r < kRows; ++r) max[r] = vmax(max[r], vload(column + (row + r) * kTile));
  }
  // The greatest product with unit is the product with the greatest: its probability will be 2^0, exactly.
  const vf tile_max = vmul(unit, vmax(vmax(max[0], max[1]), vmax(max[2], max[3])));
  const vf new_max = vmax(old_max, tile_max);
  const bool dropped = s.dropout.p > 0;
  for (int r = 0; r < kRows; ++r) sum[r] = vzero();
  for (int row = first; row < last; row += kRows) {
    vf p[kRows];
    for (int r = 0; r < kRows; ++r) {
      p[r] = vexp2(vsub(vmul(unit, vload(column + (row + r) * kTile)), new_max));
      sum[r] = vadd(sum[r], p[r]);
    }
    if (dropped) {
      for (int r = 0; r < kRows; ++r) p[r] = vmul(p[r], vload(keep + (row + r) * kTile + c * kLanes));
    }
    for (int r = 0; r < kRows; r += 2) {
      Words::store_across(column + (row + r) / Words::kPerWord * kTile, kTile, p[r], p[r + 1]);
    }
  }
  const vf total = vadd(vadd(sum[0], sum[1]), vadd(sum[2], sum[3])), rescale = vexp2(vsub(old_max, new_max));
  vstore(running.sum + c * kLanes, vfma(vload(running.sum + c * kLanes), rescale, total));
  vstore(running.max + c * kLanes, new_max);
  vstore(running.rescale + c * kLanes, rescale);
}

/// One head of one query tile: what its rows saved. delta = dout . o.
struct SavedRows {
  float lse2[kTile], delta[kTile];  // lse2 = -lse * log2 e
};

/// Where the backward's softmax leaves its words, from key row `from` of the tile on.
struct GradientWords {
  float *p, *ds;     // along queries: [key - from][kTile / kPerWord]; p after dropout
  float* ds_across;  // across keys: [(key - from) / kPerWord][kTile]; = ds where both forms are the same
};

/// For one vector of queries and the key rows `first`..`last`, which begin at row `from` of all buffers:
/// scores and gradients of the probabilities become the probabilities and the gradients of the scores before
/// soft-cap and scale.
template <class Words>
inline void softmax_backward(const AttentionShape& s, const QueryTile& q, const KeyTile& k, int c, int from,
                             int first, int last, const SavedRows& saved, const float* scores,
                             const float* grads, const float* keep, const GradientWords& out) {
  constexpr int kPer = Words::kPerWord, kLine = kTile / kPer;
  const LaneRange range = k.masked[c] ? lane_range(q, k, c) : LaneRange{vzero(), vzero()};
  const vf lse2 = vload(saved.lse2 + c * kLanes), delta = vload(saved.delta + c * kLanes), one = vset(1.0f);
  const vf argument = vset(score_units(s).argument), unit = vset(score_units(s).unit);
  const vf kept = vset(s.dropout.p > 0 ? 1.0f / (1.0f - s.dropout.p) : 1.0f);
  const bool capped = s.softcap > 0, masked = k.masked[c], dropped = s.dropout.p > 0;
  for (int row = first; row < last; row += 2) {
    vf p[2], ds[2];
    for (int r = 0; r < 2; ++r) {
      const int64_t at = (row + r - from) * kTile + c * kLanes;
      vf score = vload(scores + at), slope = one, dp = vload(grads + at);
      if (capped) {
        score = vtanh(vmul(score, argument));
        slope = vfnma(score, score, one);
      }
      if (masked) score = mask_scores(range, row + r, score);
      const vf probability = vexp2(vfma(score, unit, lse2));
      p[r] = probability;
      if (dropped) {
        const vf factor = vmul(kept, vload(keep + (row + r) * kTile + c * kLanes));
        p[r] = vmul(probability, factor);
        dp = vmul(dp, factor);
      }
      ds[r] = vmul(probability, vsub(dp, delta));
      if (capped) ds[r] = vmul(ds[r], slope);
    }
    const int64_t at = (row - from) * kLine + c * (kLanes / kPer);
    Words::store_lines(out.p + at, kLine, p[0], p[1]);
    if (out.ds != out.ds_across) Words::store_lines(out.ds + at, kLine, ds[0], ds[1]);
    Words::store_across(out.ds_across + (row - from) / kPer * kTile + c * kLanes, kTile, ds[0], ds[1]);
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
