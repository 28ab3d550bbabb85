// The router of a mixture of experts: chooses a token's experts and their weights from its logits, and
// measures the balance between experts (DeepSeek-V3, arXiv:2412.19437, eq. 13-20).
#pragma once

#include "engine/base/stream.h"

namespace hawser::kernels {

constexpr int64_t kMaxExperts = 1024;
constexpr float kLeastSum = 1e-20f;  ///< keeps a sum of scores from being zero, as in Transformers

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

/// Scores s = softmax(z), or sigmoid(z) for each element, of the logits z[rows, experts]. A row chooses the
/// top_k experts with the largest s + bias; ties go to the lower. With groups, which are of equal size and
/// have consecutive experts, only experts of the top_groups groups may be chosen; the score of a group is the
/// sum of its best two s + bias. The bias affects only the choice. The weight of a chosen expert is s,
/// divided by the sum over the chosen experts if `normalize`, times scale. All of this is in f32.
struct RouterShape {
  int64_t rows = 0, experts = 0, top_k = 0, groups = 1, top_groups = 1;
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;
  float scale = 1;
};

struct RouterForward {
  int32_t* choice = nullptr;  ///< [rows, top_k], ascending
  float* weights = nullptr;   ///< [rows, top_k], weights of these experts
  const float* logits = nullptr;
  const float* bias = nullptr;  ///< [experts]; null: none
  RouterShape shape;
};

/// Number of values of RouterStatistics for a row of the batch.
static constexpr inline int64_t statistics_width(int64_t experts) { return 2 * experts + 1; }

/// Computes statistics per row of the batch: out[b] has `experts` counts of choices, then `experts` sums of
/// scores, with each token's scores normalised to sum 1, then the sum of squares of the logits' log-sum-exp.
/// Row r of the call is position first_row + r of the batch, which has `seq` positions per row; a row of the
/// batch without any of them gives zeros.
struct RouterStatistics {
  float* out = nullptr;  ///< [batch, 2 experts + 1]
  const float* logits = nullptr;
  const int32_t* choice = nullptr;
  int64_t batch = 0, seq = 0, first_row = 0;
  RouterShape shape;
  float* workspace = nullptr;  ///< router_statistics_workspace(args) floats
};

/// Size of the pieces into which rows of the batch are divided, whatever the number of workers.
constexpr int64_t kStatisticsRows = 64;
static constexpr inline int64_t router_statistics_workspace(const RouterStatistics& s) {
  return s.batch * ((s.seq + kStatisticsRows - 1) / kStatisticsRows) * statistics_width(s.shape.experts);
}

/// Values that a layer's routers count in a step. They are integers, so that sums over ranks have no order:
/// the choices of each expert, the balance loss and the squares of log-sum-exp in fixed units, the choices
/// that capacity dropped, and the rounds in which rows were sent to their experts.
enum RouterTallyWord : int64_t {
  kTallyBalance = 0,
  kTallySquares = 1,
  kTallyDropped = 2,
  kTallyRounds = 3,
  kTallyWords = 4
};
constexpr double kTallyBalanceUnit = 1.0 / 4294967296.0, kTallySquaresUnit = 1.0 / 65536.0;
/// Rounds to the nearest number of units; an overflow or NaN becomes the largest.
static constexpr inline int64_t tally_of(double x, double unit) {
  constexpr double kMost = 4611686018427387904.0;
  const double units = x / unit;
  return units < kMost ? static_cast<int64_t>(units + 0.5) : static_cast<int64_t>(kMost);
}

/// Factor of the sum over experts of count times score sum, for the balance loss of a complete row of
/// `positions` positions.
static constexpr inline double balance_factor(int64_t experts, int64_t top_k, int64_t positions) {
  const auto t = static_cast<double>(positions);
  return static_cast<double>(experts) / (static_cast<double>(top_k) * t * t);
}

/// Adds statistics[batch, 2 experts + 1] to tally[experts + kTallyWords]. The balance loss of a row of the
/// batch is experts / (top_k T^2) times the sum over experts of count times score sum; T = `positions`, those
/// of the complete row.
struct RouterTally {
  int64_t* tally = nullptr;
  const float* statistics = nullptr;
  const int32_t* offsets = nullptr;  ///< from GroupRows: offsets[experts] is the number of rows that were not
                                     ///< dropped
  int64_t batch = 0, positions = 0, rounds = 1;
  RouterShape shape;
};

/// Computes dlogits from the gradients of the weights; the choice of experts is constant. Adds the gradients
/// of the balance loss (for each normalised score, balance_scale times the count of the expert in this row of
/// the batch) and of z_scale (log-sum-exp)^2. Both are multiplied by *loss_scale, as dweights already is.
struct RouterBackward {
  float* dlogits = nullptr;
  const float* logits = nullptr;
  const int32_t* choice = nullptr;
  const int32_t* place =
      nullptr;  ///< from GroupRows: negative entries were dropped and have no gradient; null: none was
                ///< dropped
  const float* dweights = nullptr;
  const float* statistics = nullptr;  ///< statistics of complete rows; null if balance_scale is 0
  int64_t seq = 0, first_row = 0;
  float balance_scale = 0, z_scale = 0;
  const float* loss_scale = nullptr;  ///< null: 1
  RouterShape shape;

  constexpr float scaled(float factor) const { return loss_scale != nullptr ? factor * *loss_scale : factor; }
};

/// bias[i] += rate sign(mean load - load of expert first + i), i < count (Wang et al., arXiv:2408.15664).
struct RouterBalance {
  float* bias = nullptr;
  const int64_t* load = nullptr;  ///< loads of all experts
  int64_t experts = 0, first = 0, count = 0;
  float rate = 0;
};

}  // namespace hawser::kernels
