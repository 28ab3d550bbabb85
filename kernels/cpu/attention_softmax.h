// The softmax of a tile, one vector of queries at a time: masks and soft-cap, the online form of the forward,
// and the derivative for the backward. Scores times `unit` are exponents of 2.
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

/// The reference and the sum of each query row's probabilities so far. The reference is an earlier maximum.
/// It moves, and sums are rescaled, only if the probabilities of a strip of keys would sum to more than
/// kMostStripSum (as in FlashAttention-4). That is rare after the first keys, so usually the maximum is not
/// even computed.
struct Softmax {
  float reference[kTile], sum[kTile];
};
constexpr float kMostStripSum = 256;

/// Applies soft-cap and mask to a vector of queries, on key rows `rows`, the first of which is at `column`.
inline void finish_scores(float* column, const AttentionShape& s, const QueryTile& q, const KeyTile& k, int c,
                          RowRange rows) {
  const int n = rows.last - rows.first;
  if (s.softcap > 0) {
    const vf argument = vset(score_units(s).argument);
    for (int row = 0; row < n; ++row) {
      vstore(column + row * kPanel, vtanh(vmul(vload(column + row * kPanel), argument)));
    }
  }
  if (k.masked[c]) {
    const LaneRange range = lane_range(q, k, c);
    for (int row = 0; row < n; ++row) {
      vstore(column + row * kPanel, mask_scores(range, rows.first + row, vload(column + row * kPanel)));
    }
  }
}

/// Returns the maximum of n rows of scores, times `unit`. The maximum of the products equals the product of
/// the maximum, so its probability can be exactly 2^0.
inline vf greatest_score(const float* column, int n, vf unit) {
  vf max[kRows];
  for (int r = 0; r < kRows; ++r) max[r] = vset(kMasked);
  for (int row = 0; row < n; row += kRows) {
    for (int r = 0; r < kRows; ++r) max[r] = vmax(max[r], vload(column + (row + r) * kPanel));
  }
  return vmul(unit, vmax(vmax(max[0], max[1]), vmax(max[2], max[3])));
}

/// Moves the reference to `greatest` for the queries whose probabilities exceed kMostStripSum, and rescales
/// their sums. `rescale` receives the factor for other sums: 1 if the reference did not move.
inline void move_reference(Softmax& running, int c, vf strip_sum, vf greatest, float* rescale) {
  const vf old = vload(running.reference + c * kLanes);
  const vf reference = vselect_lt(vset(kMostStripSum), strip_sum, vmax(old, greatest), old);
  const vf factor = vexp2(vsub(old, reference));
  vstore(running.reference + c * kLanes, reference);
  vstore(running.sum + c * kLanes, vmul(vload(running.sum + c * kLanes), factor));
  vstore(rescale, factor);
}

/// Turns n rows of scores of a vector of queries into probabilities (after dropout, without its scale), as
/// words across keys, and returns their sums. keep: the dropout mask, kTile floats a row, or null.
template <class Words>
HWS_NOINLINE vf softmax_vector(vf reference, const float* column, int n, vf unit, const float* keep,
                               float* words) {
  Group<kRows> sums;
  vf(&sum)[kRows] = sums.v;
  for (int r = 0; r < kRows; ++r) sum[r] = vzero();
  for (int row = 0; row < n; row += kRows) {
    Group<kRows> scores;
    for (int r = 0; r < kRows; ++r) scores.v[r] = vload(column + (row + r) * kPanel);
    Group<kRows> powers = Words::exp2(vsub(vmul(unit, scores), reference));
    sums = vadd(sums, powers);
    vf(&p)[kRows] = powers.v;
    if (keep != nullptr) {
      for (int r = 0; r < kRows; ++r) p[r] = vmul(p[r], vload(keep + (row + r) * kTile));
    }
    for (int r = 0; r < kRows; r += 2) {
      Words::store_across(words + (row + r) / Words::kPerWord * kPanel, kPanel, p[r], p[r + 1]);
    }
  }
  return vadd(vadd(sum[0], sum[1]), vadd(sum[2], sum[3]));
}

/// The natural logarithm of a sum of probabilities; NaN for NaN. It uses plain operations, so that the
/// compiler can vectorise loops over it.
HWS_INLINE float log_of_sum(float x) {
  constexpr uint32_t kRootHalf = 0x3f3504f3u;
  const uint32_t bits = float_bits(x) + (0x3f800000u - kRootHalf);
  const float m = bits_float((bits & 0x7fffffu) + kRootHalf);  // x = m 2^e, m within a factor sqrt(2) of 1
  const float e = static_cast<float>(static_cast<int32_t>(bits >> 23) - 127);
  const float r = (m - 1.0f) / (m + 1.0f), t = r * r;  // log m = 2 artanh r
  const float series = 1.0f + t * (1.0f / 3 + t * (1.0f / 5 + t * (1.0f / 7 + t * (1.0f / 9))));
  return e * kLn2 + (2.0f * r * series + (x - x));
}

/// Finishes a softmax after all keys: computes lse and the factor that normalises sums of probabilities,
/// times `kept`, for n rows.
inline void end_softmax(const Softmax& running, int n, float kept, float* factor, float* lse) {
  for (int r = 0; r < n; ++r) {
    const float sum = running.sum[r];
    factor[r] = sum == 0 ? 0.0f : kept / sum;
    lse[r] = running.reference[r] * kLn2 + log_of_sum(sum);
  }
}

/// Weights of two results, over other keys and over these keys, in the result over both.
struct Shares {
  float others, here;
};

/// Merges two results. lse is that of the other keys, perhaps -infinity, and becomes that of both. lse_here
/// is that of these keys, more than -infinity.
inline Shares merge_softmax(float lse_here, float& lse) {
  const float distance = lse_here - lse;
  const bool greater = distance > 0;
  float power[kLanes];
  vstore(power, vexp(vset(greater ? -distance : distance)));
  const float lesser = power[0], sum = 1.0f + lesser;
  lse = (greater ? lse_here : lse) + (lesser == 0 ? 0.0f : log_of_sum(sum));
  return {(greater ? lesser : 1.0f) / sum, (greater ? 1.0f : lesser) / sum};
}

/// Values that the forward saved for the rows of one head of one query tile. delta = dout · o.
struct SavedRows {
  float lse2[kTile], delta[kTile];  // lse2 = -lse * log2 e
};

/// Where the backward's softmax writes the words of a vector of queries, starting at its first key row.
struct GradientWords {
  float *p, *ds;     // along queries: kTile / kPerWord words a key; p after dropout
  float* ds_across;  // across keys: kPanel words for kPerWord keys
};

/// For one vector of queries and key rows `rows`: turns scores and gradients of the probabilities into
/// probabilities and gradients of the scores before soft-cap and scale. keep: the dropout mask, kTile floats
/// a row, or null.
template <class Words>
HWS_NOINLINE void softmax_backward(const AttentionShape& s, const QueryTile& q, const KeyTile& k, int c,
                                   RowRange rows, const SavedRows& saved, const float* scores,
                                   const float* grads, const float* keep, const GradientWords& out) {
  constexpr int kPer = Words::kPerWord, kLine = kTile / kPer;
  const LaneRange range = k.masked[c] ? lane_range(q, k, c) : LaneRange{vzero(), vzero()};
  const vf lse2 = vload(saved.lse2 + c * kLanes), delta = vload(saved.delta + c * kLanes), one = vset(1.0f);
  const vf argument = vset(score_units(s).argument), unit = vset(score_units(s).unit);
  const vf kept = vset(s.dropout.p > 0 ? 1.0f / (1.0f - s.dropout.p) : 1.0f);
  const bool capped = s.softcap > 0, masked = k.masked[c];
  for (int row = 0; row < rows.last - rows.first; row += 2) {
    vf p[2], ds[2], slope[2] = {one, one};
    Group<2> finished;
    for (int r = 0; r < 2; ++r) {
      vf& score = finished.v[r];
      score = vload(scores + (row + r) * kPanel);
      if (capped) {
        score = vtanh(vmul(score, argument));
        slope[r] = vfnma(score, score, one);
      }
      if (masked) score = mask_scores(range, rows.first + row + r, score);
    }
    const Group<2> probabilities = Words::exp2_for_words(vfma(finished, unit, lse2));
    for (int r = 0; r < 2; ++r) {
      const vf probability = probabilities.v[r];
      vf dp = vload(grads + (row + r) * kPanel);
      p[r] = probability;
      if (keep != nullptr) {
        const vf factor = vmul(kept, vload(keep + (row + r) * kTile));
        p[r] = vmul(probability, factor);
        dp = vmul(dp, factor);
      }
      ds[r] = vmul(probability, vsub(dp, delta));
      if (capped) ds[r] = vmul(ds[r], slope[r]);
    }
    Words::store_lines(out.p + row * kLine, kLine, p[0], p[1]);
    Words::store_lines(out.ds + row * kLine, kLine, ds[0], ds[1]);
    Words::store_across(out.ds_across + row / kPer * kPanel, kPanel, ds[0], ds[1]);
  }
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
