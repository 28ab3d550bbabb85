// The router of a mixture of experts: from a token's logits to the experts that it goes to and their weights,
// and what balance between experts is measured by (DeepSeek-V3, arXiv:2412.19437, eq. 13-20).
#pragma once

#include "engine/base/stream.h"

namespace hawser::kernels {

constexpr int64_t kMaxExperts = 1024;
constexpr float kLeastSum = 1e-20f;  ///< keeps a sum of scores from being zero, as in Transformers

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

/// Scores s = softmax(z), or sigmoid(z) of each, of the logits z[rows, experts]. A row chooses the top_k
/// experts of largest s + bias; of equal ones the lower. With groups, of equal size and consecutive experts,
/// only those of the top_groups groups may be chosen: a group counts the sum of its best two s + bias. Bias
/// enters the choice only. The weight of a chosen expert is s, over the sum of the chosen ones if
/// `normalize`, times scale. All in f32.
struct RouterShape {
  int64_t rows = 0, experts = 0, top_k = 0, groups = 1, top_groups = 1;
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;
  float scale = 1;
};

struct RouterForward {
  int32_t* choice = nullptr;  ///< [rows, top_k], ascending
  float* weights = nullptr;   ///< [rows, top_k], of those experts
  const float* logits = nullptr;
  const float* bias = nullptr;  ///< [experts]; null: none
  RouterShape shape;
};

/// Numbers of RouterStatistics for a row of the batch.
static constexpr inline int64_t statistics_width(int64_t experts) { return 2 * experts + 1; }

/// Adds nothing up over rows yet: for each row b of the batch, out[b] has `experts` counts of choices, then
/// `experts` sums of scores, each row's scores normalised to sum 1, then the sum of squares of the logits'
/// log-sum-exp. Row r of the call is position first_row + r of the batch, which has `seq` in a row; a row of
/// the batch without any gives zeros.
struct RouterStatistics {
  float* out = nullptr;  ///< [batch, 2 experts + 1]
  const float* logits = nullptr;
  const int32_t* choice = nullptr;
  int64_t batch = 0, seq = 0, first_row = 0;
  RouterShape shape;
  float* workspace = nullptr;  ///< router_statistics_workspace(args) floats
};

/// Rows of the batch in pieces of so many, whatever the number of workers.
constexpr int64_t kStatisticsRows = 64;
static constexpr inline int64_t router_statistics_workspace(const RouterStatistics& s) {
  return s.batch * ((s.seq + kStatisticsRows - 1) / kStatisticsRows) * statistics_width(s.shape.experts);
}

/// What a layer's routers count in a step, as whole numbers, so that sums over ranks have no order: the
/// choices of each expert, the balance loss and the squares of log-sum-exp in fixed units, choices that
/// capacity dropped, and rounds in which rows went to their experts.
enum RouterTallyWord : int64_t {
  kTallyBalance = 0,
  kTallySquares = 1,
  kTallyDropped = 2,
  kTallyRounds = 3,
  kTallyWords = 4
};
constexpr double kTallyBalanceUnit = 1.0 / 4294967296.0, kTallySquaresUnit = 1.0 / 65536.0;
/// To the nearest whole number of units; what cannot be one (an overflow, or not a number) to the largest.
static constexpr inline int64_t tally_of(double x, double unit) {
  constexpr double kMost = 4611686018427387904.0;
  const double units = x / unit;
  return units < kMost ? static_cast<int64_t>(units + 0.5) : static_cast<int64_t>(kMost);
}

/// What multiplies the sum over experts of count times score sum, for the balance loss of a whole row of
/// `positions`.
static constexpr inline double balance_factor(int64_t experts, int64_t top_k, int64_t positions) {
  const auto t = static_cast<double>(positions);
  return static_cast<double>(experts) / (static_cast<double>(top_k) * t * t);
}

/// Adds statistics[batch, 2 experts + 1] to tally[experts + kTallyWords]. The balance loss of a row of the
/// batch is experts / (top_k T^2) times the sum over experts of count times score sum, T = `positions` of the
/// whole row.
struct RouterTally {
  int64_t* tally = nullptr;
  const float* statistics = nullptr;
  const int32_t* offsets = nullptr;  ///< of GroupRows: rows that were kept are offsets[experts]
  int64_t batch = 0, positions = 0, rounds = 1;
  RouterShape shape;
};

/// dlogits from the gradients of the weights; what was chosen is constant. Adds the gradients of the balance
/// loss, which is balance_scale times the count of an expert in the row's row of the batch by each normalised
/// score, and of z_scale (log-sum-exp)^2.
struct RouterBackward {
  float* dlogits = nullptr;
  const float* logits = nullptr;
  const int32_t* choice = nullptr;
  const int32_t* place =
      nullptr;  ///< of GroupRows: negative ones were dropped and have no gradient; null: none was
  const float* dweights = nullptr;
  const float* statistics = nullptr;  ///< of the whole rows; null if balance_scale is 0
  int64_t seq = 0, first_row = 0;
  float balance_scale = 0, z_scale = 0;
  RouterShape shape;
};

/// bias[i] += rate sign(mean load - load of expert first + i), i < count (Wang et al., arXiv:2408.15664).
struct RouterBalance {
  float* bias = nullptr;
  const int64_t* load = nullptr;  ///< of all experts
  int64_t experts = 0, first = 0, count = 0;
  float rate = 0;
};

}  // namespace hawser::kernels
