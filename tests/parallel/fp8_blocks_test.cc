// Tests layouts under the fp8 recipe "blocks". Blocks begin with the rows of a micro-batch on a rank, or of
// an expert and a source, and weights are gathered before they are rounded. So layouts that promise the same
// bits keep them.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/answers.h"
#include "tests/harness/expert_layouts.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/same_bits.h"

namespace hawser::testing {
namespace fp8_blocks_test {

/// With a margin of 12, most inputs and weights are subnormal, so every scale changes bits. Rows, widths and
/// features fill one block and a part of a second.
Problem problem_of(bool like_gpt2, bool experts = false) {
  Problem p;
  p.precision = "fp8", p.fp8 = R"({"recipe": "blocks", "margin": 12})", p.like_gpt2 = like_gpt2;
  p.width = 136, p.mlp_width = 140, p.micro_batch = 11;
  if (experts) p.experts = R"({"experts": 8, "top_k": 2, "width": 12, "layers": [1], "shared_width": 20})";
  return p;
}

Layout of_model(int64_t tp, int64_t cp) {
  Layout l;
  l.tp = tp, l.cp = cp, l.accumulation = 2;
  return l;
}

/// A problem of whose heads and features each of two tensor-parallel ranks has one block.
Problem problem_of_two_blocks(bool like_gpt2) {
  Problem p = problem_of(like_gpt2);
  p.width = 256, p.kv_heads = 4, p.head_dim = 64, p.mlp_width = 256, p.micro_batch = 2;
  return p;
}

TEST(Fp8Blocks, EveryStageOfZeroKeepsTheBits) {
  for (const bool like_gpt2 : {true, false})
    for (const int64_t cp : {1, 2}) {
      Layout ddp = of_model(1, cp), layout;
      ddp.dp_shard = 2, ddp.sum_group = 2 * cp;
      layout = ddp;
      layout.sum_group = 0;
      for (const int64_t stage : {1, 3}) {
        layout.stage = stage;
        if (stage == 3) layout.recompute = R"({"policy": "full"})";
        expect_same_bits(problem_of(like_gpt2), ddp, layout, 2);
      }
    }
}

/// A split backward keeps the unrounded operands for its weight pass.
TEST(Fp8Blocks, StagesOfAPipelineKeepTheBits) {
  for (const char* schedule : {"1f1b", "zb_h1"})
    for (const bool experts : {false, true}) {
      Layout one = experts ? over(2, 2) : of_model(1, 1), two;
      one.accumulation = 3;
      two = one;
      two.pp = 2, two.schedule = schedule;
      expect_same_bits(problem_of(!experts, experts), one, two, 2);
    }
}

TEST(Fp8Blocks, DividedExpertsKeepTheBits) {
  const Problem problem = problem_of(false, true);
  Layout one = over(4, 1), divided = over(4, 2, 64);
  one.sum_group = divided.sum_group = 2;
  expect_same_bits(problem, one, divided, 2);
  Layout ddp = over(4, 2, 64), stage = ddp;
  stage.stage = 3, stage.recompute = R"({"policy": "full"})";
  expect_same_bits(problem, ddp, stage, 2);
}

TEST(Fp8Blocks, StagesOfZeroKeepTheBitsOfTensorParallelRanks) {
  for (const bool like_gpt2 : {true, false}) {
    Layout ddp = of_model(2, 1), layout;
    ddp.dp_shard = 2, ddp.sum_group = 2;
    layout = ddp;
    layout.sum_group = 0, layout.stage = 3;
    expect_same_bits(problem_of_two_blocks(like_gpt2), ddp, layout, 2);
  }
}

/// Returns the norm of the difference between all gradients of the first step.
double distance(const Problem& a, const Layout& of_a, const Problem& b, const Layout& of_b) {
  const StepRecord x = run_layout(a, of_a, 1).front(), y = run_layout(b, of_b, 1).front();
  double sum = 0;
  for (const auto& [name, gradient] : x.gradients)
    for (size_t i = 0; i < gradient.size(); ++i)
      sum += std::pow(static_cast<double>(gradient[i]) - static_cast<double>(y.gradients.at(name)[i]), 2.0);
  return std::sqrt(sum);
}

/// Tensor-parallel ranks have the same blocks as one rank. Sums in another order change some roundings, but
/// far fewer than scales that differ by a factor of two do.
TEST(Fp8Blocks, TensorParallelRanksHaveTheScalesOfOneRank) {
  for (const bool like_gpt2 : {true, false}) {
    Problem problem = problem_of_two_blocks(like_gpt2), other = problem;
    problem.dropout = other.dropout = 0;
    other.fp8 = R"({"recipe": "blocks", "margin": 11})";
    const double of_scales = distance(problem, of_model(1, 1), other, of_model(1, 1));
    EXPECT_LT(distance(problem, of_model(1, 1), problem, of_model(2, 1)), of_scales / 10) << like_gpt2;
  }
}

TEST(Fp8Blocks, AnEvaluationBetweenTwoStepsChangesNoBit) {
  for (const Layout& layout : {of_model(1, 2), over(2, 2)}) {
    const Problem problem = problem_of(false, layout.ep > 1);
    LayoutRun plain(problem, layout), other(problem, layout);
    for (int i = 0; i < 2; ++i) {
      (void)ask(other.trainer(), problem, 7);
      EXPECT_EQ(first_difference({plain.step()}, {other.step()}), "") << layout.name();
    }
  }
}

/// The model's micro-batch has two blocks of rows, and a weight has several blocks, so each block has a
/// scale of its own. One scale for each operand gives other bits.
TEST(Fp8Blocks, HasOtherBitsThanOneScaleForEachOperand) {
  Problem blocks = problem_of(true), current = blocks;
  current.fp8 = R"({"recipe": "current", "margin": 12})";
  EXPECT_GT(distance(blocks, of_model(1, 1), current, of_model(1, 1)), 0);
}

}  // namespace fp8_blocks_test
}  // namespace hawser::testing
