// Biases of experts and routers on ranks: every layout computes what one rank does, and the promises of equal
// bits hold as they do for the experts' weights.
#include <gtest/gtest.h>

#include "tests/harness/near_one_rank.h"

namespace hawser::testing {
namespace expert_bias_test {

Problem problem_of(const char* experts = R"({"experts": 8, "top_k": 3, "width": 12})") {
  Problem p;
  p.like_gpt2 = false, p.optimizer = "sgd", p.documents = true;
  p.experts = experts, p.expert_biases = true;
  return p;
}

Layout layout_of(int64_t dp, int64_t tp, int64_t cp, int64_t ep) {
  Layout l;
  l.dp_shard = dp, l.tp = tp, l.cp = cp, l.ep = ep;
  return l;
}

TEST(ExpertBias, ComputesWhatOneRankDoes) {
  for (const char* experts : {R"({"experts": 8, "top_k": 3, "width": 12})",
                              R"({"experts": 4, "top_k": 4, "width": 16, "layers": [1]})",
                              R"({"experts": 60, "top_k": 1, "width": 8, "normalize": false})"})
    for (const Layout& layout : {layout_of(2, 1, 1, 1), layout_of(4, 1, 1, 2), layout_of(1, 2, 1, 2),
                                 layout_of(1, 1, 2, 2), layout_of(2, 2, 1, 4)})
      expect_near_one_rank(problem_of(experts), layout, 3, 2e-5);
}

TEST(ExpertBias, SeveralRoundsComputeWhatOneRankDoes) {
  Layout layout = layout_of(4, 1, 1, 4);
  layout.rows_factor = 0.3;
  expect_near_one_rank(problem_of(), layout, 2, 2e-5);
}

TEST(ExpertBias, EveryStageAndRecomputeGiveTheBitsOfDdp) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const int64_t ep : {1, 2}) {
      Problem p = problem_of();
      p.precision = precision, p.optimizer = "adamw", p.tied = false;
      Layout ddp = layout_of(4, 1, 1, ep);
      ddp.accumulation = 2;
      const std::vector<StepRecord> expected = run_layout(p, ddp, 2);
      std::vector<Layout> others(4, ddp);
      others[0].stage = 1, others[1].stage = 3;
      others[2].recompute = R"({"policy": "full"})";
      others[3].pp = 2;
      for (const Layout& layout : others)
        EXPECT_EQ(first_difference(expected, run_layout(p, layout, 2)), "") << precision << layout.name();
    }
}

/// Dropped choices add no bias and give it no gradient.
TEST(ExpertBias, CapacityDropsBiasesToo) {
  Problem p = problem_of();
  p.moe = R"({"dispatch": "capacity", "capacity_factor": 0.5})";
  EXPECT_EQ(
      first_difference(run_layout(p, layout_of(2, 1, 1, 1), 2), run_layout(p, layout_of(2, 1, 1, 1), 2)), "");
  Problem without = p;
  without.moe.clear();
  EXPECT_NE(first_difference(run_layout(p, Layout(), 1), run_layout(without, Layout(), 1)), "");
}

}  // namespace expert_bias_test
}  // namespace hawser::testing
