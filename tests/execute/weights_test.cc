// Loss weight tests: the effect of a weight for each target on loss and gradient, and that weights affect
// only their own batch. Tests that compare layouts show that ranks agree about weights
// (harness/layout_run.h).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace weights_test {

using testing::ScratchFolder;
using testing::small_config;
using testing::tensor;
using testing::write_tokens;
using train::BatchView;
using train::TensorKind;
using train::Trainer;

constexpr int64_t kRows = 6, kCols = 24;
constexpr size_t kTargets = kRows * kCols;

/// A global batch of random tokens; every fifth target is masked. Weights are 0, 0.5, 1 or 1.5.
struct Batch {
  std::vector<int32_t> tokens, targets;
  std::vector<float> weights;

  explicit Batch(uint64_t number) {
    for (uint64_t i = 0; i < kTargets; ++i) {
      const PhiloxBlock word = philox(11, number, i);
      tokens.push_back(static_cast<int32_t>(word.v[0] % 53));
      targets.push_back(i % 5 == 2 ? -100 : static_cast<int32_t>(word.v[1] % 53));
      weights.push_back(0.5f * static_cast<float>(word.v[2] % 4));
    }
  }
  BatchView plain() const { return {kRows, kCols, tokens.data(), targets.data(), nullptr, nullptr}; }
  BatchView weighted() const {
    return {kRows, kCols, tokens.data(), targets.data(), nullptr, weights.data()};
  }
  /// Returns the batch with only those targets that have this weight.
  Batch only(float weight) const {
    Batch b = *this;
    for (size_t i = 0; i < kTargets; ++i)
      if (weights[i] != weight) b.targets[i] = -100;
    return b;
  }
};

struct Half {
  train::StepResult result;
  std::vector<float> gradient;
};

class WeightsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const std::string& precision = "fp32") {
    config::ConfigTree config = small_config(tokens_, precision);
    for (const char* site : {"embedding", "attention", "residual"})
      config.set(std::string("/model/dropout/") + site, "0");
    return Trainer::create(config, false, &cancel_);
  }
  /// Runs the gradient phase of a step, and then rewinds the step.
  static Half half(Trainer& trainer, const BatchView& batch) {
    trainer.push(batch);
    const train::StepResult result = trainer.forward_backward();
    const Half h{result, tensor(trainer, TensorKind::kGradient, "embedding.tokens.weight", 53 * 40)};
    trainer.discard(true);
    return h;
  }
  ScratchFolder folder_;
  std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

/// Loss and gradient are linear in the weights: they equal the sum over each weight of the results for its
/// targets alone, times that weight, divided by the number of all targets.
TEST_F(WeightsTest, ScaleLossAndGradientButNotTheDivisor) {
  const auto trainer = make();
  const Batch batch(1);
  const Half whole = half(*trainer, batch.weighted());
  double loss = 0;
  int64_t tokens = 0;
  std::vector<double> gradient(whole.gradient.size());
  for (const float weight : {0.0f, 0.5f, 1.0f, 1.5f}) {
    const Half part = half(*trainer, batch.only(weight).plain());
    const double factor = static_cast<double>(weight) * static_cast<double>(part.result.tokens) /
                          static_cast<double>(whole.result.tokens);
    tokens += part.result.tokens;
    loss += factor * part.result.loss;
    for (size_t i = 0; i < gradient.size(); ++i)
      gradient[i] += factor * static_cast<double>(part.gradient[i]);
  }
  EXPECT_EQ(whole.result.tokens, tokens) << "a target of weight 0 counts";
  EXPECT_NEAR(whole.result.loss, loss, 1e-6);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    difference += std::pow(static_cast<double>(whole.gradient[i]) - gradient[i], 2);
    norm += std::pow(gradient[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-5);
}

TEST_F(WeightsTest, OfOneAreNoWeightsBitForBit) {
  for (const char* precision : {"fp32", "bf16"}) {
    const auto trainer = make(precision);
    Batch batch(2);
    batch.weights.assign(kTargets, 1.0f);
    const Half plain = half(*trainer, batch.plain()), weighted = half(*trainer, batch.weighted());
    EXPECT_EQ(plain.result.loss, weighted.result.loss);
    EXPECT_EQ(plain.result.grad_norm, weighted.result.grad_norm);
    EXPECT_EQ(plain.gradient, weighted.gradient);
  }
}

TEST_F(WeightsTest, BelongToTheirBatchAlone) {
  const auto trainer = make(), fresh = make();
  const Batch first(3), second(4);
  const double weighted = half(*trainer, first.weighted()).result.loss;
  const Half after = half(*trainer, second.plain()), alone = half(*fresh, second.plain());
  EXPECT_EQ(after.result.loss, alone.result.loss);
  EXPECT_EQ(after.gradient, alone.gradient);
  EXPECT_EQ(half(*trainer, first.weighted()).result.loss, weighted) << "pushed again after a rewind";
  EXPECT_NE(half(*trainer, first.plain()).result.loss, weighted);
}

TEST_F(WeightsTest, OfZeroAreAStepThatLearnsNothing) {
  const auto trainer = make();
  Batch batch(5);
  batch.weights.assign(kTargets, 0.0f);
  const Half nothing = half(*trainer, batch.weighted());
  EXPECT_EQ(nothing.result.loss, 0);
  EXPECT_EQ(nothing.result.grad_norm, 0);
  EXPECT_EQ(nothing.result.tokens, half(*trainer, batch.plain()).result.tokens);
}

TEST_F(WeightsTest, AreInTheLossOfAnEvaluation) {
  const auto trainer = make();
  const Batch batch(6);
  const BatchView view = batch.weighted();
  const train::Evaluation whole = trainer->inference().eval(&view, 0);
  double loss = 0;
  for (const float weight : {0.0f, 0.5f, 1.0f, 1.5f}) {
    const Batch only = batch.only(weight);
    const BatchView plain = only.plain();
    const train::Evaluation part = trainer->inference().eval(&plain, 0);
    loss += static_cast<double>(weight) * part.loss * static_cast<double>(part.tokens);
  }
  EXPECT_NEAR(whole.loss, loss / static_cast<double>(whole.tokens), 1e-6);
  EXPECT_EQ(whole.loss, half(*trainer, view).result.loss) << "what a step says of the same rows";
}

TEST_F(WeightsTest, MustBeFiniteAndNotNegative) {
  const auto trainer = make();
  for (const float bad : {-1.0f, -std::numeric_limits<float>::infinity(), std::nanf(""),
                          std::numeric_limits<float>::infinity()}) {
    Batch batch(7);
    batch.weights[kCols + 4] = bad;
    try {
      trainer->push(batch.weighted());
      FAIL() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kDataInvalid);
      EXPECT_NE(e.message().find("row 1, column 4"), std::string::npos) << e.message();
    }
  }
  EXPECT_NO_THROW(trainer->push(Batch(7).weighted())) << "nothing waits after an error";
}

TEST_F(WeightsTest, TakeWhatIsPlannedToTheByte) {
  const auto trainer = make();
  trainer->push(Batch(8).weighted());
  trainer->train_step();
  const auto memory = nlohmann::json::parse(trainer->reports().info_json()).at("memory");
  EXPECT_EQ(memory.at("planned"), memory.at("high_water"));
}

}  // namespace weights_test
}  // namespace hawser
