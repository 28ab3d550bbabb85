// Context parallelism test: compares it with one rank. At equal cp and mode, every ZeRO stage, bucket size
// and reduction policy gives the same bits (promise L2); compared with one rank, everything is inside an
// envelope (promise L4).
#include <gtest/gtest.h>

#include "tests/harness/answers.h"
#include "tests/harness/near_one_rank.h"

namespace hawser::testing {
namespace context_parallel_test {

constexpr const char* kModes[] = {"gather", "ring", "ulysses"};

/// Returns GPT-2-like and Gemma-like problems, with tied and separate heads, frozen parts, one or several
/// documents.
std::vector<Problem> problems() {
  std::vector<Problem> all(4);
  all[1].tied = false, all[1].documents = true;
  all[2].like_gpt2 = false, all[2].documents = true;
  all[3].like_gpt2 = false, all[3].tied = false, all[3].frozen = true;
  for (Problem& p : all) p.optimizer = "sgd";
  return all;
}

TEST(ContextParallel, ComputesWhatOneRankDoes) {
  for (const Problem& problem : problems())
    for (const char* mode : kModes)
      for (const int64_t cp : {2, 4}) {
        Layout layout;
        layout.cp = cp, layout.cp_mode = mode;
        expect_near_one_rank(problem, layout, 3, 2e-5);
      }
}

/// Uses rows that no number of chunks divides, ranks without columns, and more ranks than key/value heads.
TEST(ContextParallel, OddDegreesAndColumns) {
  for (const bool like_gpt2 : {true, false})
    for (const char* mode : kModes)
      for (const auto& [cp, sequence] :
           {std::pair<int64_t, int64_t>{2, 4}, {2, 13}, {3, 7}, {3, 20}, {4, 9}, {6, 13}}) {
        Problem problem;
        problem.optimizer = "sgd", problem.like_gpt2 = like_gpt2, problem.documents = cp == 3;
        problem.heads = 12, problem.kv_heads = cp % 3 == 0 ? 3 : 2, problem.sequence = sequence;
        Layout layout;
        layout.cp = cp, layout.cp_mode = mode, layout.accumulation = 2;
        expect_near_one_rank(problem, layout, 2, 2e-5);
      }
}

/// Narrow types round different sums than one rank does; a lost or doubled sum would differ far more.
TEST(ContextParallel, StaysNearOneRankInNarrowTypes) {
  for (const char* mode : kModes)
    for (const char* precision : {"bf16", "bf16_pure"}) {
      Problem problem;
      problem.precision = precision, problem.optimizer = "sgd", problem.documents = true;
      Layout layout;
      layout.cp = 4, layout.cp_mode = mode;
      expect_near_one_rank(problem, layout, 1, 4e-2);
    }
}

TEST(ContextParallel, BesideTensorAndDataParallelRanks) {
  for (const Problem& problem : problems())
    for (const char* mode : kModes)
      for (const int64_t stage : {0, 3}) {
        Layout layout;
        layout.cp = 2, layout.cp_mode = mode, layout.tp = 2, layout.dp_shard = 2, layout.stage = stage;
        expect_near_one_rank(problem, layout, 2, 2e-5);
      }
}

TEST(ContextParallel, EveryStageGivesTheSameBits) {
  for (const Problem& base : problems())
    for (const char* mode : kModes)
      for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16"}) {
        Problem problem = base;
        problem.precision = precision, problem.optimizer = "adamw";
        Layout ddp;
        ddp.cp = 2, ddp.cp_mode = mode, ddp.dp_shard = 2, ddp.accumulation = 2;
        ddp.reduce = base.tied ? "per_step" : "per_micro_batch";
        const std::vector<StepRecord> expected = run_layout(problem, ddp, 2);
        for (const int64_t stage : {1, 2, 3}) {
          Layout layout = ddp;
          layout.stage = stage, layout.bucket_bytes = stage < 3 ? 4096 : 0;
          EXPECT_EQ(first_difference(expected, run_layout(problem, layout, 2)), "")
              << precision << " " << layout.name();
        }
      }
}

/// State is also sharded over cp, so a stage needs no data-parallel ranks.
TEST(ContextParallel, AloneShardsState) {
  Problem problem;
  problem.heads = 6, problem.kv_heads = 3;
  for (const char* mode : kModes) {
    Layout ddp;
    ddp.cp = 3, ddp.cp_mode = mode;
    const std::vector<StepRecord> expected = run_layout(problem, ddp, 2);
    for (const int64_t stage : {1, 2, 3}) {
      Layout layout = ddp;
      layout.stage = stage;
      EXPECT_EQ(first_difference(expected, run_layout(problem, layout, 2)), "") << layout.name();
    }
  }
}

TEST(ContextParallel, HybridShardsToo) {
  for (const Problem& problem : problems()) {
    Layout ddp;
    ddp.cp = 2, ddp.dp_shard = 4, ddp.sum_group = 4;
    const std::vector<StepRecord> expected = run_layout(problem, ddp, 2);
    for (const int64_t stage : {1, 2, 3}) {
      Layout layout;
      layout.cp = 2, layout.dp_replicate = 2, layout.dp_shard = 2, layout.stage = stage;
      EXPECT_EQ(first_difference(expected, run_layout(problem, layout, 2)), "") << layout.name();
    }
  }
}

TEST(ContextParallel, InferenceGivesWholeRows) {
  for (const Problem& problem : problems()) {
    LayoutRun one(problem, Layout());
    for (const char* mode : kModes)
      for (const int64_t tp : {1, 2}) {
        Layout layout;
        layout.cp = 2, layout.cp_mode = mode, layout.tp = tp, layout.dp_shard = 2, layout.stage = 3;
        LayoutRun ranks(problem, layout);
        for (const int64_t cols : {12, 7, 3}) {
          SCOPED_TRACE(layout.name() + " columns " + std::to_string(cols));
          const Answers want = ask(one.trainer(), problem, cols), got = ask(ranks.trainer(), problem, cols);
          for (size_t i = 0; i < want.logits.size(); ++i)
            ASSERT_NEAR(got.logits[i], want.logits[i], 2e-5) << i;
          for (size_t i = 0; i < want.logprobs.size(); ++i)
            ASSERT_NEAR(got.logprobs[i], want.logprobs[i], 2e-5) << i;
          EXPECT_NEAR(got.loss, want.loss, 1e-5);
          EXPECT_EQ(got.text, want.text);
        }
      }
  }
}

/// Sums by a binary tree do not depend on how data-parallel ranks divide rows.
TEST(ContextParallel, SumsByATree) {
  Problem problem;
  Layout wide;
  wide.cp = 2, wide.dp_shard = 4, wide.tree = true;
  const std::vector<StepRecord> expected = run_layout(problem, wide, 2);
  Layout layout = wide;
  layout.dp_shard = 2, layout.stage = 2;
  layout.dp_replicate = 2;
  EXPECT_EQ(first_difference(expected, run_layout(problem, layout, 2)), "");
}

}  // namespace context_parallel_test
}  // namespace hawser::testing
