// Fp8 test: under precision fp8, the scales of operands are the same in every layout that promises the
// same bits, follow from committed steps alone, and come back with a checkpoint.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint.h"
#include "tests/harness/answers.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/recompute_bits.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace fp8_test {

using Json = nlohmann::ordered_json;
using train::Outcome;

/// Scales are powers of two, so they change what rounding gives only for numbers that saturate, or that are
/// subnormal in the format. With a margin of 12, most inputs and weights are.
constexpr const char *kDelayed = "{}", *kShort = R"({"history": 2})",
                     *kCurrent = R"({"recipe": "current", "margin": 12})",
                     *kSubnormal = R"({"history": 2, "margin": 12})",
                     *kBlocks = R"({"recipe": "blocks", "margin": 12})";

Problem problem_of(const char* fp8, bool like_gpt2 = true) {
  Problem p;
  p.precision = "fp8", p.fp8 = fp8, p.like_gpt2 = like_gpt2, p.documents = !like_gpt2;
  return p;
}

Json state_in(const std::string& checkpoint) {
  return Json::parse(checkpoint::inspect(checkpoint)).at("state");
}

/// Computes the gradients of a batch whose targets have this weight.
train::StepResult compute_heavy(LayoutRun* run, const Problem& problem, const Layout& layout, float weight) {
  Rows rows = rows_of(problem, problem.micro_batch * layout.accumulation * layout.dp(), 5);
  rows.weights.assign(rows.tokens.size(), weight);
  rows.targets[0] = 7;
  run->trainer().push(rows.view());
  return run->trainer().forward_backward();
}

/// Multiplies a number of a weight, and returns what it was.
float change_weight(train::Trainer* trainer, const char* name, float factor) {
  std::vector<float> values(static_cast<size_t>(trainer->ranks().table().at(name).size));
  trainer->tensors().get(train::TensorKind::kWeight, name, values.data(), values.size() * 4);
  const float was = values[3];
  values[3] *= factor;
  trainer->tensors().set(train::TensorKind::kWeight, name, values.data(), values.size() * 4);
  return was;
}

void expect_same(const StepRecord& a, const StepRecord& b, const std::string& where) {
  EXPECT_EQ(first_difference({a}, {b}), "") << where;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all(4);
  all[0].accumulation = 3;
  all[1].dp_shard = 3, all[1].stage = 1, all[1].accumulation = 2;
  all[2].dp_shard = 2, all[2].stage = 3, all[2].recompute = R"({"policy": "full"})";
  all[3].pp = 2, all[3].schedule = "zb_h1", all[3].accumulation = 3;
  return all;
}

/// A rank's maxima are those of its micro-batches; with one order of sums, only they could differ.
TEST(Fp8, DividingMicroBatchesAmongRanksChangesNoBit) {
  for (const char* fp8 : {kCurrent, kBlocks, kSubnormal, kShort, kDelayed})
    for (const bool like_gpt2 : {true, false}) {
      Layout serial;
      serial.accumulation = 4, serial.tree = true;
      const Problem problem = problem_of(fp8, like_gpt2);
      const std::vector<StepRecord> expected = run_layout(problem, serial, 4);
      for (const int64_t dp : {2, 4})
        for (const int64_t stage : {0, 3}) {
          Layout l = serial;
          l.dp_shard = dp, l.accumulation = 4 / dp, l.stage = stage;
          EXPECT_EQ(first_difference(expected, run_layout(problem, l, 4)), "") << fp8 << " " << l.name();
        }
    }
}

TEST(Fp8, RecomputeChangesNoBit) {
  for (const char* fp8 : {kCurrent, kBlocks, kSubnormal, kShort})
    for (const bool like_gpt2 : {true, false}) {
      Layout layout;
      layout.accumulation = 2;
      expect_recompute_bits(
          problem_of(fp8, like_gpt2), layout,
          {R"({"policy": "full"})", R"({"policy": "selective"})", R"({"policy": "every", "every": 2})"}, 3);
    }
}

TEST(Fp8, EveryRecipeHasItsOwnBits) {
  Problem bf16 = problem_of(kDelayed);
  bf16.precision = "bf16";
  std::vector<std::map<std::string, std::vector<float>>> all = {run_layout(bf16, Layout(), 4).back().weights};
  for (const char* fp8 : {kShort, kCurrent, kBlocks, kSubnormal})
    all.push_back(run_layout(problem_of(fp8), Layout(), 4).back().weights);
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_TRUE(all[i] != all[j]) << i << " " << j;
}

TEST(Fp8, ADiscardedStepOrOneThatIsNotFiniteCountsForNothing) {
  const char* const name = "blocks.1.mlp.down.weight";
  for (const char* fp8 : {kCurrent, kBlocks, kSubnormal, kShort})
    for (const Layout& layout : layouts()) {
      const Problem problem = problem_of(fp8);
      LayoutRun plain(problem, layout), other(problem, layout);
      for (int i = 0; i < 2; ++i) expect_same(plain.step(), other.step(), layout.name());
      EXPECT_GT(compute_heavy(&other, problem, layout, 1000.0f).grad_norm, 1);
      other.trainer().discard(true);
      expect_same(plain.step(), other.step(), layout.name());
      const float was = change_weight(&other.trainer(), name, 1e30f);
      compute_heavy(&other, problem, layout, 1.0f);
      other.trainer().discard(true);
      change_weight(&other.trainer(), name, std::numeric_limits<float>::infinity());
      EXPECT_FALSE(std::isfinite(compute_heavy(&other, problem, layout, 1.0f).grad_norm)) << layout.name();
      other.trainer().discard(true);
      std::vector<float> values(static_cast<size_t>(other.trainer().ranks().table().at(name).size));
      other.trainer().tensors().get(train::TensorKind::kWeight, name, values.data(), values.size() * 4);
      values[3] = was;
      other.trainer().tensors().set(train::TensorKind::kWeight, name, values.data(), values.size() * 4);
      expect_same(plain.step(), other.step(), layout.name());
    }
}

TEST(Fp8, AnEvaluationBetweenTwoStepsChangesNoBit) {
  for (const char* fp8 : {kCurrent, kBlocks, kSubnormal, kShort})
    for (const Layout& layout : {layouts()[0], layouts()[2]}) {
      const Problem problem = problem_of(fp8);
      LayoutRun plain(problem, layout), other(problem, layout);
      for (int i = 0; i < 3; ++i) {
        (void)ask(other.trainer(), problem, 7);
        expect_same(plain.step(), other.step(), layout.name());
      }
    }
}

/// Takes a step; in step 1 a weight is much larger, which its operand's history keeps for some steps.
StepRecord step_of(LayoutRun* run, int step) {
  const char* const name = "blocks.1.mlp.down.weight";
  if (step == 1) change_weight(&run->trainer(), name, 1024);
  StepRecord record = run->step();
  if (step == 1) change_weight(&run->trainer(), name, 1.0f / 1024);
  return record;
}

/// Every checkpoint has another history.
void expect_resumes(const char* fp8) {
  constexpr int kSteps = 6;
  const ScratchFolder folder;
  const Problem problem = problem_of(fp8);
  Layout layout;
  layout.dp_shard = 2, layout.stage = 2;
  LayoutRun whole(problem, layout);
  std::vector<StepRecord> records;
  for (int i = 0; i < kSteps; ++i) {
    whole.trainer().saves().save(folder.file(std::to_string(i)));
    records.push_back(step_of(&whole, i));
  }
  EXPECT_TRUE(state_in(folder.file("0")).at("fp8_history").empty());
  EXPECT_EQ(state_in(folder.file("4")).at("fp8_history").count("blocks.1.mlp.up.weight:gradient"), 1u);
  for (int from = 0; from < kSteps; ++from) {
    LayoutRun resumed(problem, layout);
    resumed.step();  // a history of its own, which the checkpoint's replaces
    resumed.trainer().loads().load(folder.file(std::to_string(from)), false);
    resumed.skip_to(from);
    for (int i = from; i < kSteps; ++i)
      expect_same(records[static_cast<size_t>(i)], step_of(&resumed, i), std::to_string(from));
  }
}

TEST(Fp8, ResumedRunsHaveTheBitsOfTheWholeRun) {
  for (const char* fp8 : {kShort, kSubnormal}) expect_resumes(fp8);
}

/// These scales follow from the operands alone, so a checkpoint has no history.
TEST(Fp8, RecipesWithoutAHistoryResumeFromWeightsAlone) {
  for (const char* fp8 : {kCurrent, kBlocks}) {
    const ScratchFolder folder;
    LayoutRun whole(problem_of(fp8), Layout()), resumed(problem_of(fp8), Layout());
    whole.step();
    whole.trainer().saves().save(folder.file("1"));
    EXPECT_FALSE(state_in(folder.file("1")).contains("fp8_history"));
    resumed.trainer().loads().load(folder.file("1"), false);
    resumed.skip_to(1);
    expect_same(whole.step(), resumed.step(), fp8);
  }
}

/// Weights may come from another precision; a history is kept only by fp8.
TEST(Fp8, BeginsWithoutAHistoryAfterACheckpointOfAnotherPrecision) {
  const ScratchFolder folder;
  Problem bf16 = problem_of(kDelayed);
  bf16.precision = "bf16";
  LayoutRun other(bf16, Layout()), run(problem_of(kDelayed), Layout()), first(problem_of(kDelayed), Layout());
  other.step();
  other.trainer().saves().save(folder.file("bf16"));
  first.trainer().loads().load(folder.file("bf16"), false);
  run.step();
  run.trainer().loads().load(folder.file("bf16"), false);
  first.skip_to(1);
  expect_same(first.step(), run.step(), "bf16");
  run.trainer().saves().save(folder.file("fp8"));
  other.trainer().loads().load(folder.file("fp8"), false);
  other.step();
  other.trainer().saves().save(folder.file("bf16_again"));
  EXPECT_TRUE(state_in(folder.file("fp8")).contains("fp8_history"));
  EXPECT_FALSE(state_in(folder.file("bf16_again")).contains("fp8_history"));
}

/// Weights are rounded where they are read, so one that the host program sets is used at once.
TEST(Fp8, AWeightThatIsSetIsMultipliedAtOnce) {
  for (const char* fp8 : {kCurrent, kBlocks, kDelayed}) {
    const ScratchFolder folder;
    const Problem problem = problem_of(fp8);
    LayoutRun run(problem, Layout());
    run.step();
    const double before = ask(run.trainer(), problem, 7).loss;
    const char* const name = "blocks.0.attention.o.weight";
    std::vector<float> values(static_cast<size_t>(run.trainer().ranks().table().at(name).size));
    run.trainer().tensors().get(train::TensorKind::kWeight, name, values.data(), values.size() * 4);
    for (float& v : values) v *= -1;
    run.trainer().tensors().set(train::TensorKind::kWeight, name, values.data(), values.size() * 4);
    const double after = ask(run.trainer(), problem, 7).loss;
    EXPECT_NE(before, after);
    run.trainer().saves().save(folder.file("set"));
    LayoutRun loaded(problem, Layout());
    loaded.trainer().loads().load(folder.file("set"), false);
    EXPECT_EQ(ask(loaded.trainer(), problem, 7).loss, after) << fp8;
  }
}

}  // namespace fp8_test
}  // namespace hawser::testing
