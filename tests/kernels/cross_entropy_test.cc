// Promises of the cross entropy in addition to agreement with its reference (op_cases_test.cc).
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/harness/test_stream.h"

namespace hawser::kernels {
namespace cross_entropy_test {

struct Losses {
  std::vector<float> losses, logits;
};

Losses run(std::vector<float> logits, const std::vector<int32_t>& targets, bool backward, float softcap = 0,
           const float* weights = nullptr) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  const auto rows = static_cast<int64_t>(targets.size()), vocab = static_cast<int64_t>(logits.size()) / rows;
  Losses r = {std::vector<float>(targets.size(), NAN), std::move(logits)};
  const float scale = 1.0f;
  CrossEntropy c = {r.losses.data(), r.logits.data(), targets.data(), &scale, rows, vocab, softcap, backward};
  c.weights = weights;
  table.cross_entropy(c, stream);
  return r;
}

TEST(CrossEntropy, EqualLogitsGiveTheLogOfTheVocabulary) {
  const Losses r = run(std::vector<float>(50257, 7.0f), {123}, true);
  EXPECT_NEAR(r.losses[0], std::log(50257.0), 1e-6);
}

TEST(CrossEntropy, LargeLogitsNeitherOverflowNorVanish) {
  const Losses r = run({1e30f, -1e30f, 0.0f, 88.0f, 89.0f, 90.0f}, {0, 2}, true);
  EXPECT_EQ(r.losses[0], 0.0f);
  EXPECT_NEAR(r.losses[1], std::log(1 + std::exp(-1.0) + std::exp(-2.0)), 1e-6);
  for (const float g : r.logits) EXPECT_TRUE(std::isfinite(g));
}

TEST(CrossEntropy, MaskedRowsHaveNoLossAndNoGradientEvenOfNaN) {
  const Losses r = run({NAN, NAN, 1.0f, 2.0f}, {-100, 1}, true);
  EXPECT_EQ(r.losses[0], 0.0f);
  EXPECT_EQ(r.logits[0], 0.0f);
  EXPECT_EQ(r.logits[1], 0.0f);
  EXPECT_TRUE(std::isfinite(r.losses[1]));
}

TEST(CrossEntropy, NaNInARowShowsInItsLoss) {
  EXPECT_TRUE(std::isnan(run({1.0f, NAN, 2.0f}, {0}, false).losses[0]));
  EXPECT_TRUE(std::isnan(run({NAN, 1.0f, 2.0f}, {1}, true).losses[0]));
}

TEST(CrossEntropy, AGradientRowSumsToZero) {
  std::vector<float> logits(30011);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  for (float& z : logits) z = normal(generator);
  const Losses r = run(logits, {77}, true);
  double sum = 0;
  for (const float g : r.logits) sum += g;
  EXPECT_NEAR(sum, 0.0, 1e-6);
  EXPECT_LT(r.logits[77], 0.0f);
}

TEST(CrossEntropy, ARowOfSeveralBlocksHasTheLossOfItsForwardAndTheExactGradient) {
  std::vector<float> logits(13000);
  std::mt19937 generator(2);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  for (float& z : logits) z = normal(generator);
  logits[100] = 10.0f, logits[5000] = 12.0f, logits[9000] = 11.0f;  // the second block has the maximum
  const Losses forward = run(logits, {7000}, false), both = run(logits, {7000}, true);
  EXPECT_EQ(both.losses, forward.losses);
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - 12);
  for (size_t j = 0; j < logits.size(); ++j) {
    const double p = std::exp(static_cast<double>(logits[j]) - 12) / sum;
    if (j == 7000) continue;
    ASSERT_NEAR(both.logits[j], p, 3e-6 * p) << j;  // a logit less the maximum is rounded to 2^-20
  }
}

TEST(CrossEntropy, TheBitsOfAnExponentialDoNotDependOnItsColumn) {
  for (const float z : {-1.0f, -85.9f, -86.5f, -88.0f, -100.0f, -103.9f, -104.5f, -1e30f, -INFINITY}) {
    // Column 19 is in the middle of a group of vectors, and column 66 behind the last group.
    std::vector<float> logits(69, -1.0f);
    logits[10] = 0.0f, logits[19] = logits[66] = z;
    const Losses r = run(logits, {10}, true);
    EXPECT_EQ(r.logits[19], r.logits[66]) << z;
    EXPECT_NEAR(r.logits[19], std::exp(static_cast<double>(z)) / (1 + 66 * std::exp(-1.0) + 2 * std::exp(z)),
                1e-6 * std::exp(z) + 1e-44)
        << z;
  }
}

TEST(CrossEntropy, WeightsOfOneAreNoWeightsBitForBit) {
  const std::vector<float> logits = {0.3f, -1.7f, 2.9f, 0.1f, 0.2f, 0.4f}, ones = {1.0f, 1.0f};
  const Losses plain = run(logits, {1, 2}, true), weighted = run(logits, {1, 2}, true, 0, ones.data());
  EXPECT_EQ(plain.losses, weighted.losses);
  EXPECT_EQ(plain.logits, weighted.logits);
}

TEST(CrossEntropy, AWeightScalesLossAndGradientOfItsRowAlone) {
  const std::vector<float> logits = {0.3f, -1.7f, 2.9f, 0.1f, 0.2f, 0.4f}, weights = {0.5f, 0.0f};
  const Losses plain = run(logits, {1, 2}, true), weighted = run(logits, {1, 2}, true, 0, weights.data());
  EXPECT_EQ(weighted.losses[0], plain.losses[0] / 2);
  EXPECT_EQ(weighted.losses[1], 0.0f);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_FLOAT_EQ(weighted.logits[i], plain.logits[i] / 2);
    EXPECT_EQ(weighted.logits[3 + i], 0.0f);
  }
}

TEST(SoftCap, ZeroLeavesLogitsAlone) {
  const KernelTable& table = cpu_kernels(best_cpu_level());
  testing::SerialStream stream;
  std::vector<float> x = {1.0f, 100.0f};
  table.soft_cap({x.data(), 2, 0.0f}, stream);
  EXPECT_EQ(x, (std::vector<float>{1.0f, 100.0f}));
}

}  // namespace cross_entropy_test
}  // namespace hawser::kernels
