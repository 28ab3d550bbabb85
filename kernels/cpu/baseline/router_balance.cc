// Statistics of routers: sums over fixed pieces of each row of the batch, then over the pieces in order; and
// the update of the balance bias.
#include "kernels/cpu/baseline/router_scores.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::baseline {
namespace {

/// Adds a row's counts, its scores (scaled to add up to 1), and the square of its log-sum-exp.
void add_row(float* out, const RouterStatistics& a, int64_t row) {
  const RouterShape& s = a.shape;
  const float* const z = a.logits + row * s.experts;
  float score[kScoreRoom];
  const float log_sum_exp = softmax_of(score, z, s.experts);
  float factor = 1;
  if (s.score == RouterScore::kSigmoid) {
    scores_of(score, z, s);
    float sum = 0;
    for (int64_t e = 0; e < s.experts; ++e) sum += score[e];
    factor = 1 / sum;
  }
  for (int64_t j = 0; j < s.top_k; ++j) out[a.choice[row * s.top_k + j]] += 1;
  for (int64_t e = 0; e < s.experts; ++e) out[s.experts + e] += score[e] * factor;
  out[2 * s.experts] += log_sum_exp * log_sum_exp;
}

}  // namespace

void router_statistics(const RouterStatistics& args, Stream& stream) {
  const int64_t width = statistics_width(args.shape.experts), end_row = args.first_row + args.shape.rows;
  const int64_t pieces = (args.seq + kStatisticsRows - 1) / kStatisticsRows;
  parallel(stream, args.batch * pieces, [&](int64_t task, int32_t) {
    float* const out = args.workspace + task * width;
    for (int64_t i = 0; i < width; ++i) out[i] = 0;
    const int64_t first = task / pieces * args.seq, at = task % pieces * kStatisticsRows;
    const int64_t end = at + kStatisticsRows < args.seq ? at + kStatisticsRows : args.seq;
    for (int64_t row = first + at; row < first + end; ++row)
      if (row >= args.first_row && row < end_row) add_row(out, args, row - args.first_row);
  });
  parallel(stream, args.batch, [&](int64_t b, int32_t) {
    float* const out = args.out + b * width;
    for (int64_t i = 0; i < width; ++i) out[i] = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const float* const part = args.workspace + (b * pieces + piece) * width;
      for (int64_t i = 0; i < width; ++i) out[i] += part[i];
    }
  });
}

void router_tally(const RouterTally& args, Stream& stream) {
  parallel(stream, 1, [&](int64_t, int32_t) {
    const int64_t experts = args.shape.experts;
    const double factor = balance_factor(experts, args.shape.top_k, args.positions);
    int64_t* const words = args.tally + experts;
    for (int64_t b = 0; b < args.batch; ++b) {
      const float* const row = args.statistics + b * statistics_width(experts);
      double balance = 0;
      for (int64_t e = 0; e < experts; ++e) {
        args.tally[e] += static_cast<int64_t>(row[e]);
        balance += static_cast<double>(row[e]) * static_cast<double>(row[experts + e]);
      }
      words[kTallyBalance] += tally_of(balance * factor, kTallyBalanceUnit);
      words[kTallySquares] += tally_of(static_cast<double>(row[2 * experts]), kTallySquaresUnit);
    }
    words[kTallyDropped] += args.shape.rows * args.shape.top_k - args.offsets[experts];
    words[kTallyRounds] += args.rounds;
  });
}

void router_balance(const RouterBalance& args, Stream& stream) {
  parallel(stream, 1, [&](int64_t, int32_t) {
    int64_t total = 0;
    for (int64_t e = 0; e < args.experts; ++e) total += args.load[e];
    for (int64_t i = 0; i < args.count; ++i) {
      const int64_t load = args.load[args.first + i] * args.experts;  // the mean load is total / experts
      args.bias[i] += load < total ? args.rate : load > total ? -args.rate : 0.0f;
    }
  });
}

}  // namespace hawser::kernels::baseline
