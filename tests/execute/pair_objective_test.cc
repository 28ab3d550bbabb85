// PairObjective tests: compare what OBJECTIVE writes and sums for one micro-batch of two pairs with values
// computed by hand.
#include "engine/execute/pair_objective.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"

namespace hawser::train {
namespace pair_objective_test {

constexpr int64_t kRows = 4, kCols = 5;

/// The answers of the first pair have 2 and 3 targets, those of the second 1 and 2. The rest of a row is its
/// prompt or padding.
struct Batch {
  std::vector<int32_t> targets = {-100, -100, 7,    8,    -100, -100, 4,    5,    6, -100,
                                  -100, -100, -100, -100, 9,    -100, -100, -100, 1, 2};
  std::vector<float> losses = std::vector<float>(20, 100.0f), weights = std::vector<float>(20, 3.0f);
  std::vector<uint64_t> samples = {0, 1, 2, 3};

  Batch() {
    losses[2] = 1.0f, losses[3] = 1.5f;                     // chosen: log-probability -2.5
    losses[6] = 1.0f, losses[7] = 2.0f, losses[8] = 0.75f;  // rejected: -3.75
    losses[14] = 2.0f;                                      // chosen: -2
    losses[18] = 0.25f, losses[19] = 0.25f;                 // rejected: -0.5
  }
  MicroBatch view() {
    MicroBatch batch;
    batch.batch = kRows, batch.seq = kCols;
    batch.targets = targets.data(), batch.weights = weights.data(), batch.samples = samples.data();
    return batch;
  }
};

PairObjective objective(optim::ObjectiveKind kind) {
  return PairObjective({{kind, 0.5, 0, 0, 0, {}}, 1, kRows});
}

TEST(PairObjective, WritesTheWeightsOfNeighbouringRows) {
  Batch batch;
  PairObjective o = objective(optim::ObjectiveKind::kDpo);
  o.begin(o.count(batch.view()), kRows);
  const float references[] = {-2, -3, -4, -1};
  std::copy_n(references, kRows, o.references(0));
  o.apply_objective(0, batch.losses.data(), batch.view(), batch.view());
  const double mean = o.agree(0);
  // The answers differ from their references by -0.5 and -0.75 in the first pair, 2 and 0.5 in the second.
  const double x[] = {0.5 * 0.25, 0.5 * 1.5};
  double loss = 0;
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    const int64_t row = i / kCols;
    const double weight = 0.5 / (1 + std::exp(x[row / 2])) / 2 * (row % 2 == 0 ? 1 : -1);
    EXPECT_EQ(batch.weights[static_cast<size_t>(i)],
              batch.targets[static_cast<size_t>(i)] == -100 ? 0.0f : static_cast<float>(weight));
  }
  for (const double each : x) loss += std::log1p(std::exp(-each)) / 2;
  EXPECT_NEAR(mean, loss, 1e-15);
  EXPECT_DOUBLE_EQ(o.rewards().chosen, 0.5 * (-0.5 + 2) / 2);
  EXPECT_DOUBLE_EQ(o.rewards().rejected, 0.5 * (-0.75 + 0.5) / 2);
  EXPECT_EQ(o.rewards().accuracy, 1);
}

TEST(PairObjective, MeansAreOverTheTokensOfAnswers) {
  Batch batch;
  PairObjective o = objective(optim::ObjectiveKind::kSimpo);
  EXPECT_EQ(o.references(0), nullptr);
  o.begin(o.count(batch.view()), kRows);
  o.apply_objective(0, batch.losses.data(), batch.view(), batch.view());
  const double mean = o.agree(0);
  // The means are -1.25 and -1.25 in the first pair, -2 and -0.25 in the second. Equal rewards count as
  // half a win.
  EXPECT_NEAR(mean, (std::log(2.0) + std::log1p(std::exp(0.5 * 1.75))) / 2, 1e-15);
  EXPECT_EQ(batch.weights[2], 0.5f / 2 / 2 / 2);
  EXPECT_EQ(o.rewards().accuracy, 0.25);
}

TEST(PairObjective, AnswersNeedTargets) {
  Batch batch;
  batch.targets[14] = -100;
  EXPECT_THROW(objective(optim::ObjectiveKind::kDpo).count(batch.view()), Error);
  batch.targets[14] = 9;
  EXPECT_EQ(objective(optim::ObjectiveKind::kDpo).count(batch.view()), 3);
}

}  // namespace pair_objective_test
}  // namespace hawser::train
