// Objective test: objectives over pairs have the bits of plain data parallelism under every layout (promise
// L2), with recompute too, and one rank within an envelope (promise L4).
#include <gtest/gtest.h>

#include <tuple>

#include "tests/harness/near_one_rank.h"
#include "tests/harness/same_bits.h"

namespace hawser::testing {
namespace objective_test {

/// Returns all kinds, some with an adapter, documents, a separate head, or experts.
std::vector<Problem> problems() {
  std::vector<Problem> all(8);
  all[0].objective = R"({"kind": "dpo", "label_smoothing": 0.1})";
  all[1].objective = R"({"kind": "dpo_sft", "sft_weight": 0.5})";
  all[1].adapter = R"({"rank": 2, "dropout": 0.2})";
  all[2].objective = R"({"kind": "ipo"})";
  all[2].like_gpt2 = false, all[2].tied = false;
  all[3].objective = R"({"kind": "hinge"})";
  all[3].documents = true;
  all[4].objective = R"({"kind": "simpo"})";
  all[4].like_gpt2 = false, all[4].experts = R"({"experts": 6, "top_k": 2, "width": 20})";
  all[5].objective = R"({"kind": "orpo"})";
  all[6].objective = R"({"kind": "reward"})";
  all[7].objective = R"({"kind": "reward"})";
  all[7].like_gpt2 = false, all[7].adapter = R"({"rank": 2})", all[7].precision = "bf16";
  return all;
}

TEST(Objectives, EveryStageGivesTheBitsOfDdp) {
  for (const Problem& problem : problems()) expect_stages_same_bits(problem, 2);
}

TEST(Objectives, EveryScheduleGivesTheBitsOfOneStage) {
  for (const Problem& problem : problems()) expect_schedules_same_bits(problem, 2);
}

TEST(Objectives, RecomputeAndReductionOfEachMicroBatchChangeNoBit) {
  for (const Problem& problem : problems()) {
    Layout kept;
    kept.accumulation = 2, kept.dp_shard = 2;
    Layout again = kept;
    again.recompute = R"({"policy": "full"})";
    expect_same_bits(problem, kept, again, 2);
    kept.reduce = again.reduce = "per_micro_batch";
    again.stage = 2;
    expect_same_bits(problem, kept, again, 2);
  }
}

/// The losses are means over the pairs and the chosen tokens of the full batch, so no division among ranks
/// changes a divisor.
TEST(Objectives, AnyDivisionComputesWhatOneRankDoes) {
  for (Problem problem : problems()) {
    problem.optimizer = "sgd", problem.dropout = 0, problem.precision = "fp32";
    for (const auto& [tp, sp, cp, mode, dp, stage] :
         {std::tuple<int64_t, bool, int64_t, const char*, int64_t, int64_t>{1, false, 1, "ring", 3, 0},
          {2, true, 1, "ring", 1, 0},
          {2, false, 1, "ring", 1, 0},
          {1, false, 2, "ring", 1, 0},
          {1, false, 2, "gather", 1, 0},
          {1, false, 2, "ulysses", 1, 0},
          {2, true, 2, "ring", 2, 3}}) {
      if (!sp && tp > 1 && !problem.experts.empty()) continue;  // the config refuses this
      Layout layout;
      layout.tp = tp, layout.sequence_parallel = sp, layout.cp = cp, layout.cp_mode = mode;
      layout.dp_shard = dp, layout.stage = stage, layout.accumulation = 2;
      expect_near_one_rank(problem, layout, 2, 1e-4);
    }
  }
}

}  // namespace objective_test
}  // namespace hawser::testing
