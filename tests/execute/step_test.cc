// Step tests: what a step changes and what it leaves alone, and that threads and accumulation do not
// change its numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/base/error.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace step_test {

using testing::ScratchFolder;
using testing::small_config;
using testing::tensor;
using testing::write_tokens;
using train::Outcome;
using train::TensorKind;
using train::Trainer;

constexpr size_t kEmbedding = 53 * 40;

class StepTest : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const config::ConfigTree& config) {
    return Trainer::create(config, false, &cancel_);
  }
  ScratchFolder folder_;
  std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

std::vector<float> weights_after(Trainer& trainer, int steps) {
  for (int i = 0; i < steps; ++i) trainer.train_step();
  return tensor(trainer, TensorKind::kWeight, "embedding.tokens.weight", kEmbedding);
}

TEST_F(StepTest, LossFalls) {
  const auto trainer = make(small_config(tokens_));
  const double first = trainer->train_step().loss;
  for (int i = 0; i < 38; ++i) trainer->train_step();
  EXPECT_LT(trainer->train_step().loss, first - 0.5);
}

TEST_F(StepTest, ThreadsDoNotChangeABit) {
  for (const char* precision : {"fp32", "bf16"}) {
    const auto one = weights_after(*make(small_config(tokens_, precision, 1)), 4);
    EXPECT_EQ(one, weights_after(*make(small_config(tokens_, precision, 2)), 4)) << precision;
    EXPECT_EQ(one, weights_after(*make(small_config(tokens_, precision, 3)), 4)) << precision;
  }
}

TEST_F(StepTest, AccumulationIsExactOverUnequalCounts) {
  // One micro-batch of six rows and six micro-batches of one row have the same samples, so the fp32 sums
  // differ only in their order.
  const char* const no_dropout = R"(, "guard": {"max_consecutive_skips": 5})";
  config::ConfigTree whole = small_config(tokens_, "fp32", 1, no_dropout), split = whole;
  for (config::ConfigTree* c : {&whole, &split}) {
    for (const char* site : {"embedding", "attention", "residual"})
      c->set(std::string("/model/dropout/") + site, "0");
  }
  whole.set("/batch", R"({"micro_batch": 6, "grad_accum_steps": 1, "sequence": 24})");
  split.set("/batch", R"({"micro_batch": 1, "grad_accum_steps": 6, "sequence": 24})");
  const auto a = make(whole), b = make(split);
  const train::StepResult ra = a->forward_backward(), rb = b->forward_backward();
  EXPECT_EQ(ra.tokens, rb.tokens);
  EXPECT_NEAR(ra.loss, rb.loss, 1e-6);
  EXPECT_NEAR(ra.grad_norm, rb.grad_norm, 1e-5 * ra.grad_norm);
  const auto ga = tensor(*a, TensorKind::kGradient, "embedding.tokens.weight", kEmbedding);
  const auto gb = tensor(*b, TensorKind::kGradient, "embedding.tokens.weight", kEmbedding);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < ga.size(); ++i) difference += std::pow(ga[i] - gb[i], 2), norm += std::pow(ga[i], 2);
  EXPECT_LT(std::sqrt(difference / norm), 1e-5);
}

TEST_F(StepTest, DropoutMasksDoNotDependOnTheSplit) {
  config::ConfigTree whole = small_config(tokens_), split = whole;
  whole.set("/batch", R"({"micro_batch": 6, "grad_accum_steps": 1, "sequence": 24})");
  split.set("/batch", R"({"micro_batch": 2, "grad_accum_steps": 3, "sequence": 24})");
  EXPECT_NEAR(make(whole)->forward_backward().loss, make(split)->forward_backward().loss, 1e-6);
}

TEST_F(StepTest, DiscardChangesNothingButTheCursor) {
  const auto trainer = make(small_config(tokens_));
  trainer->train_step();
  const auto weights = tensor(*trainer, TensorKind::kWeight, "embedding.tokens.weight", kEmbedding);
  const auto moments = tensor(*trainer, TensorKind::kMoment2, "embedding.tokens.weight", kEmbedding);
  const train::StepResult pending = trainer->forward_backward();
  EXPECT_EQ(pending.outcome, Outcome::kPending);
  const train::StepResult dropped = trainer->discard(false);
  EXPECT_EQ(dropped.outcome, Outcome::kDiscarded);
  EXPECT_EQ(dropped.samples, 12);
  EXPECT_EQ(dropped.skipped, 1);
  EXPECT_EQ(weights, tensor(*trainer, TensorKind::kWeight, "embedding.tokens.weight", kEmbedding));
  EXPECT_EQ(moments, tensor(*trainer, TensorKind::kMoment2, "embedding.tokens.weight", kEmbedding));
  EXPECT_EQ(trainer->train_step().step, 3);
}

TEST_F(StepTest, RewindRepeatsTheBatch) {
  const auto trainer = make(small_config(tokens_));
  const train::StepResult first = trainer->forward_backward();
  trainer->discard(true);
  const train::StepResult again = trainer->forward_backward();
  EXPECT_EQ(first.loss, again.loss);
  EXPECT_EQ(first.grad_norm, again.grad_norm);
  EXPECT_EQ(first.step, again.step);
}

TEST_F(StepTest, CommitIsTrainStep) {
  const auto a = make(small_config(tokens_)), b = make(small_config(tokens_));
  for (int i = 0; i < 3; ++i) {
    a->train_step();
    b->forward_backward();
    b->commit();
  }
  EXPECT_EQ(tensor(*a, TensorKind::kWeight, "embedding.tokens.weight", kEmbedding),
            tensor(*b, TensorKind::kWeight, "embedding.tokens.weight", kEmbedding));
}

TEST_F(StepTest, NonFiniteStepsAreSkippedAndStopAfterTenInARow) {
  const auto trainer = make(small_config(tokens_));
  trainer->train_step();
  std::vector<float> bad(40, std::nanf(""));
  trainer->tensors().set(TensorKind::kWeight, "final_norm.weight", bad.data(), bad.size() * 4);
  const auto before = tensor(*trainer, TensorKind::kWeight, "embedding.tokens.weight", kEmbedding);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(trainer->train_step().outcome, Outcome::kSkippedNonFinite);
  try {
    trainer->train_step();
    FAIL() << "the tenth skip in a row must stop training";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kNumeric);
  }
  EXPECT_EQ(before, tensor(*trainer, TensorKind::kWeight, "embedding.tokens.weight", kEmbedding));
}

TEST_F(StepTest, PushedBatchesAreChecked) {
  config::ConfigTree config = small_config(tokens_);
  const auto trainer = make(config);
  std::vector<int32_t> tokens(6 * 24, 3), targets(6 * 24, 4);
  targets[30] = 53;
  try {
    trainer->push({6, 24, tokens.data(), targets.data(), nullptr});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDataInvalid);
    EXPECT_NE(e.message().find("row 1, column 6"), std::string::npos) << e.message();
  }
  targets.assign(targets.size(), -100);
  trainer->push({6, 24, tokens.data(), targets.data(), nullptr});
  EXPECT_THROW(trainer->train_step(), Error);  // nothing to learn from
  EXPECT_NO_THROW(trainer->train_step());      // the engine continues
}

TEST_F(StepTest, PeakIsPlannedToTheByte) {
  for (const auto& [precision, more] :
       {std::pair{"fp32", ""},
        {"bf16", ""},
        {"bf16", R"(, "adapter": {"rank": 2, "base": "nf4"})"},
        {"fp32", R"(, "adapter": {"rank": 2, "dora": true})"},
        {"bf16_pure", R"(, "adapter": {"rank": 2, "base": "nf4", "dora": true})"}}) {
    const auto trainer = make(small_config(tokens_, precision, 1, more));
    trainer->train_step();
    const std::string info = trainer->reports().info_json();
    const auto number = [&](const std::string& key) {
      return std::stoll(info.substr(info.find("\"" + key + "\":") + key.size() + 3));
    };
    EXPECT_EQ(number("planned_bytes"), number("high_water_bytes"));
    const std::string planned = info.substr(info.find("\"planned\":") + 10,
                                            info.find("},\"high_water\"") - info.find("\"planned\":") - 9);
    const std::string seen = info.substr(info.find("\"high_water\":") + 13, planned.size());
    EXPECT_EQ(planned, seen);
  }
}

TEST_F(StepTest, LogitsAreRoundedToTheOutputType) {
  const config::ConfigTree full = small_config(tokens_);
  config::ConfigTree rounded = full;
  rounded.set("/output_type", "bf16");
  const std::vector<int32_t> tokens = {1, 5, 9, 2, 7, 3};
  const train::BatchView view = {2, 3, tokens.data(), nullptr, nullptr};
  std::vector<float> exact(2 * 3 * 53), narrow(exact.size());
  const auto a = make(full), b = make(rounded);
  a->inference().forward(view, exact.data(), exact.size() * 4);
  b->inference().forward(view, narrow.data(), narrow.size() * 4);
  EXPECT_NE(exact, narrow);
  for (size_t i = 0; i < exact.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &narrow[i], 4);
    EXPECT_EQ(bits & 0xFFFF, 0u);
    EXPECT_LE(std::abs(narrow[i] - exact[i]), std::abs(exact[i]) / 256) << i;
  }
  EXPECT_EQ(a->train_step().loss, b->train_step().loss) << "training does not know of it";
}

TEST_F(StepTest, GreedyTextIsTheArgmaxOfForward) {
  for (const char* precision : {"fp32", "bf16"}) {
    const auto trainer = make(small_config(tokens_, precision));
    for (int i = 0; i < 10; ++i) trainer->train_step();
    std::vector<int32_t> text{5, 1, 12};
    std::vector<int32_t> generated;
    trainer->inference().generate({text.data(), 3, 40, 0, 0, 1, 0, {}},
                                  [&](int32_t t) { return generated.push_back(t), true; });
    ASSERT_EQ(generated.size(), 40u);  // beyond the context of 24
    for (int32_t token : generated) {
      const size_t cols = std::min<size_t>(text.size(), 24);
      std::vector<float> logits(cols * 53);
      trainer->inference().forward(
          {1, static_cast<int64_t>(cols), text.data() + text.size() - cols, nullptr, nullptr}, logits.data(),
          logits.size() * 4);
      const float* last = logits.data() + (cols - 1) * 53;
      EXPECT_EQ(token, std::max_element(last, last + 53) - last) << precision << " at " << text.size();
      text.push_back(token);
    }
  }
}

}  // namespace step_test
}  // namespace hawser
