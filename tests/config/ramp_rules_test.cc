// Batch ramp rules: the sizes that follow from a ramp, and the steps that it takes.
#include <gtest/gtest.h>

#include "engine/base/philox.h"
#include "engine/config/batch_config.h"
#include "tests/config/problem_list.h"

namespace hawser::config {
namespace ramp_rules_test {

ConfigTree with_batch(const std::string& batch, const std::string& more = "") {
  return ConfigTree::from_json(
      R"({"model": {"vocab_size": 100, "context": 32, "layers": 2, "width": 48, "heads": 4}, "batch": )" +
      batch + more + "}");
}
BatchConfig batch(const std::string& json, const std::string& more = "") {
  return resolve(with_batch(json, more)).batch;
}

constexpr const char* kRamp =
    R"("ramp": [{"from_rows": 0, "global_batch": 24}, {"from_rows": 100, "global_batch": 60}])";

TEST(RampRules, TheLargestSizeIsTheGlobalBatch) {
  const BatchConfig b = batch(std::string("{") + kRamp + "}");
  EXPECT_EQ(b.global_batch, 60);
  EXPECT_EQ(b.micro_batch, 6) << "at most 8 rows, which divide 24 and 60";
  EXPECT_EQ(b.grad_accum_steps, 10);
  EXPECT_EQ(b.all_micro_batches(), (std::vector<int64_t>{4, 10}));
  EXPECT_EQ(batch(std::string("{") + kRamp + R"(, "global_batch": 60})").global_batch, 60);
}

TEST(RampRules, OneMicroBatchServesAllSizesOnEveryRank) {
  const BatchConfig b = batch(std::string("{") + kRamp + "}", R"(, "mesh": {"dp_shard": 4})");
  EXPECT_EQ(b.micro_batch, 3);
  EXPECT_EQ(b.all_micro_batches(), (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(batch(std::string("{") + kRamp + R"(, "grad_accum_steps": 5})").micro_batch, 12);
}

TEST(RampRules, AStepHasTheSizeOfTheRowsBeforeIt) {
  const BatchConfig b = batch(std::string("{") + kRamp + "}");
  EXPECT_EQ(b.rows_after(0), 24);
  EXPECT_EQ(b.rows_after(99), 24);
  EXPECT_EQ(b.rows_after(100), 60);
  EXPECT_EQ(b.rows_after(1000000), 60);
  EXPECT_EQ(b.micro_batches(24), 4);
  EXPECT_EQ(batch(R"({"micro_batch": 2, "grad_accum_steps": 3})").rows_after(5), 6);
}

TEST(RampRules, ARampMayShrinkAndReturn) {
  const BatchConfig b = batch(
      R"({"ramp": [{"from_rows": 0, "global_batch": 8}, {"from_rows": 8, "global_batch": 4}, {"from_rows": 12, "global_batch": 8}]})");
  EXPECT_EQ(b.global_batch, 8);
  EXPECT_EQ(b.rows_after(8), 4);
  EXPECT_EQ(b.rows_after(12), 8);
  EXPECT_EQ(b.all_micro_batches(), (std::vector<int64_t>{1, 2}));
}

/// Takes one step after the other.
TEST(RampRules, StepsOfRowsAreThoseThatARunTakes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    auto draw = [&, i = uint64_t{0}](uint32_t below) mutable {
      return static_cast<int64_t>(philox(seed, 0, i++).v[0] % below);
    };
    BatchConfig b;
    int64_t from = 0;
    for (int64_t sizes = 1 + draw(4); sizes > 0; --sizes) {
      b.ramp.push_back({from, 1 + draw(9)});
      from += 1 + draw(30);
    }
    const int64_t rows = draw(150);
    int64_t steps = 0;
    for (int64_t consumed = 0; consumed < rows; ++steps) consumed += b.rows_after(consumed);
    EXPECT_EQ(steps_of_rows(b.ramp, rows), steps) << seed;
  }
}

TEST(RampRules, EpochsBecomeTheStepsOfTheRamp) {
  const std::string epochs = R"(, "train": {"epochs": 2, "epoch_samples": 150})";
  // 24 x 5 rows up to 120, then three steps of 60 rows
  EXPECT_EQ(resolve(with_batch(std::string("{") + kRamp + "}", epochs)).train.steps, 8);
  EXPECT_EQ(resolve(with_batch(R"({"global_batch": 60})", epochs)).train.steps, 5);
}

TEST(RampRules, TheResolvedConfigResolvesToItself) {
  const ConfigTree tree = with_batch(std::string("{") + kRamp + "}");
  const std::string resolved = resolved_json(tree);
  EXPECT_EQ(resolved_json(ConfigTree::from_json(resolved)), resolved);
  EXPECT_EQ(resolve(ConfigTree::from_json(resolved)).batch.ramp.size(), 2u);
}

TEST(RampRules, ASetRampReplacesTheBatchOfAFile) {
  ConfigTree tree = with_batch(R"({"global_batch": 32, "micro_batch": 4})");
  tree.set("/batch/ramp", R"([{"from_rows": 0, "global_batch": 8}, {"from_rows": 20, "global_batch": 16}])");
  EXPECT_EQ(resolve(tree).batch.global_batch, 16);
  EXPECT_EQ(resolve(tree).batch.grad_accum_steps, 4);
}

}  // namespace ramp_rules_test
}  // namespace hawser::config
