// Tests multi-token prediction on several ranks: every layout computes what one rank does, also with experts
// or latent attention in the depths' blocks. Every schedule of a pipeline gives the same bits as one stage.
#include <gtest/gtest.h>

#include "tests/harness/near_one_rank.h"
#include "tests/harness/schedules.h"

namespace hawser::testing {
namespace ahead_ranks_test {

constexpr const char* kExperts =
    R"({"experts": 4, "top_k": 2, "width": 12, "layers": [1], "score": "sigmoid"})";
constexpr const char* kLosses = R"({"aux_loss": 0.1, "z_loss": 0.01, "balance_rate": 0.02})";
constexpr const char* kLatent = R"({"kv_rank": 12, "q_rank": 14, "rope_dim": 4, "value_dim": 7})";

Problem problem_of(bool like_gpt2, bool documents) {
  Problem p;
  p.ahead = 2, p.like_gpt2 = like_gpt2, p.documents = documents, p.tied = documents;
  p.optimizer = "sgd", p.heads = 8, p.kv_heads = like_gpt2 ? 8 : 4;
  return p;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all = divided_layouts();
  all.emplace_back();
  all.back().tp = 2, all.back().sequence_parallel = false;
  return all;
}

TEST(AheadRanks, ComputeWhatOneRankDoes) {
  for (const bool like_gpt2 : {true, false})
    for (const bool documents : {true, false})
      for (const Layout& layout : layouts())
        expect_near_one_rank(problem_of(like_gpt2, documents), layout, 3, 2e-5);
}

TEST(AheadRanks, StayNearOneRankInNarrowTypes) {
  for (const char* precision : {"bf16", "bf16_pure"})
    for (const Layout& layout : layouts()) {
      Problem p = problem_of(true, true);
      p.precision = precision;
      expect_near_one_rank(p, layout, 1, 4e-2);
    }
}

TEST(AheadRanks, MayHaveLatentAttentionInTheirBlocks) {
  for (const Layout& layout : layouts()) {
    Problem p = problem_of(false, true);
    p.latent = kLatent, p.kv_heads = 8;
    expect_near_one_rank(p, layout, 2, 2e-5);
  }
}

/// The choices of experts depend on rounding, so only one step is compared.
TEST(AheadRanks, MayHaveExpertsInTheirBlocks) {
  std::vector<Layout> all = layouts();
  for (const int64_t ep : {2, 4}) {
    Layout l;
    l.dp_shard = 4, l.ep = ep;
    all.push_back(l);
    l.stage = 3;
    all.push_back(l);
  }
  for (const Layout& layout : all) {
    if (layout.tp > 1 && !layout.sequence_parallel) continue;  // experts need it
    Problem p = problem_of(false, false);
    p.experts = kExperts, p.moe = kLosses, p.dropout = 0, p.sequence = 16;
    expect_near_one_rank(p, layout, 1, 2e-5);
  }
}

TEST(AheadRanks, EveryScheduleGivesTheBitsOfOneStage) {
  for (const bool tied : {true, false}) {
    Problem p = problem_of(false, true);
    p.tied = tied, p.layers = 4;
    Layout one;
    one.dp_shard = 2, one.accumulation = 4;
    const std::vector<StepRecord> expected = run_layout(p, one, 2);
    for (const std::string& schedule : all_schedules()) {
      Layout stages = one;
      stages.pp = 2, stages.schedule = schedule;
      if (has_configured_chunks(schedule)) stages.chunks = 2;
      EXPECT_EQ(first_difference(expected, run_layout(p, stages, 2)), "")
          << schedule << (tied ? " tied" : "");
    }
  }
}

}  // namespace ahead_ranks_test
}  // namespace hawser::testing
