// Tensor parallelism test: compares it with one rank. At equal tp, every ZeRO stage, bucket size and
// reduction policy gives the same bits (promise L2); compared with one rank, everything is inside an envelope
// (promise L4).
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/error.h"
#include "tests/harness/near_one_rank.h"

namespace hawser::testing {
namespace tensor_parallel_test {

std::vector<Problem> problems() {
  std::vector<Problem> all(4);
  all[1].tied = false;
  all[2].like_gpt2 = false;
  all[3].like_gpt2 = false, all[3].tied = false, all[3].frozen = true;
  for (Problem& p : all) p.optimizer = "sgd";
  return all;
}

TEST(TensorParallel, ComputesWhatOneRankDoes) {
  for (const Problem& problem : problems())
    for (const int64_t tp : {2, 4})
      for (const bool sequence_parallel : {true, false}) {
        Layout layout;
        layout.tp = tp, layout.sequence_parallel = sequence_parallel;
        expect_near_one_rank(problem, layout, 3, 2e-5);
        layout.accumulation = 2;
        expect_near_one_rank(problem, layout, 2, 2e-5);
      }
}

/// Uses degrees that leave ranks without vocabulary or rows, share key/value heads between two and four
/// ranks, and divide neither the vocabulary of 53 nor the rows.
TEST(TensorParallel, OddDegreesWordsAndRows) {
  for (const bool like_gpt2 : {true, false})
    for (const auto& [tp, kv_heads, sequence] :
         {std::tuple<int64_t, int64_t, int64_t>{3, 3, 7}, {3, 1, 12}, {6, 3, 5}, {6, 2, 5}, {12, 4, 7}}) {
      Problem problem;
      problem.optimizer = "sgd", problem.like_gpt2 = like_gpt2, problem.tied = tp != 3;
      problem.heads = 12, problem.kv_heads = kv_heads, problem.mlp_width = 36;
      problem.micro_batch = 1, problem.sequence = sequence, problem.seed = 3;
      Layout layout;
      layout.tp = tp, layout.accumulation = 2;
      expect_near_one_rank(problem, layout, 2, 2e-5);
      layout.sequence_parallel = false;
      expect_near_one_rank(problem, layout, 2, 2e-5);
    }
}

/// Narrow types round different sums than one rank does; a lost or doubled sum would differ far more.
TEST(TensorParallel, StaysNearOneRankInNarrowTypes) {
  for (const bool like_gpt2 : {true, false}) {
    Problem problem;
    problem.precision = "bf16", problem.optimizer = "sgd", problem.like_gpt2 = like_gpt2;
    Layout layout;
    layout.tp = 4, layout.dp_shard = 2, layout.stage = 2;
    expect_near_one_rank(problem, layout, 2, 3e-2);
  }
}

TEST(TensorParallel, BesideDataParallelRanks) {
  for (const Problem& problem : problems())
    for (const int64_t stage : {0, 2, 3}) {
      Layout layout;
      layout.tp = 2, layout.dp_shard = 2, layout.stage = stage, layout.accumulation = 2;
      expect_near_one_rank(problem, layout, 2, 2e-5);
    }
}

TEST(TensorParallel, EveryStageGivesTheSameBits) {
  for (const Problem& base : problems())
    for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16"}) {
      Problem problem = base;
      problem.precision = precision, problem.optimizer = "adamw";
      for (const char* reduce : {"per_step", "per_micro_batch"}) {
        Layout ddp;
        ddp.tp = 2, ddp.dp_shard = 3, ddp.accumulation = 2, ddp.reduce = reduce;
        const std::vector<StepRecord> expected = run_layout(problem, ddp, 2);
        for (const int64_t stage : {1, 2, 3}) {
          Layout layout = ddp;
          layout.stage = stage, layout.bucket_bytes = stage < 3 ? 4096 : 0;
          EXPECT_EQ(first_difference(expected, run_layout(problem, layout, 2)), "")
              << precision << " " << layout.name();
        }
      }
    }
}

/// Gradients of norm weights need not be equal, because norms sum different rows on each rank. Values that
/// each rank computes for all rows are equal.
TEST(TensorParallel, RowsDividedOrNotGiveTheSameForwardAndCutGradients) {
  for (const Problem& problem : problems())
    for (const int64_t tp : {2, 4}) {
      Layout layout;
      layout.tp = tp;
      const StepRecord divided = LayoutRun(problem, layout).step();
      layout.sequence_parallel = false;
      const StepRecord whole = LayoutRun(problem, layout).step();
      EXPECT_EQ(divided.loss, whole.loss);
      int64_t compared = 0;
      for (const char* part :
           {".q.weight", ".v.bias", ".o.weight", ".up.weight", ".down.weight", "tokens.weight"})
        for (const auto& [name, values] : whole.gradients)
          if (name.ends_with(part)) {
            EXPECT_EQ(divided.gradients.at(name), values) << name;
            ++compared;
          }
      EXPECT_GE(compared, 6);
    }
}

/// With sequence parallelism, 4 ranks divide 14 tokens unequally. Chunks have equal or unequal numbers of
/// rows, or none.
TEST(TensorParallel, ChunksChangeNoBit) {
  for (Problem problem : problems())
    for (const char* precision : {"fp32", "bf16", "fp8"})
      for (const bool sequence_parallel : {true, false}) {
        problem.precision = precision, problem.optimizer = "adamw", problem.sequence = 7;
        if (problem.precision == "fp8") problem.fp8 = R"({"history": 2})";
        Layout layout;
        layout.tp = 4, layout.sequence_parallel = sequence_parallel, layout.accumulation = 2;
        const std::vector<StepRecord> expected = run_layout(problem, layout, 2);
        for (layout.tp_chunks = 2; layout.tp_chunks <= 20; layout.tp_chunks = 2 * layout.tp_chunks + 1)
          EXPECT_EQ(first_difference(expected, run_layout(problem, layout, 2)), "")
              << precision << " " << layout.name();
      }
}

/// Each of a block's two sums computes during all its chunks but the last; in backward, during the last, too.
/// If ranks divide the rows, each branch also computes while its input, or the gradient of its output, is on
/// its way.
TEST(TensorParallel, ChunksAreInThePlan) {
  for (const int64_t chunks : {1, 3})
    for (const bool sequence_parallel : {true, false}) {
      Layout layout;
      layout.tp = 2, layout.sequence_parallel = sequence_parallel, layout.tp_chunks = chunks;
      LayoutRun run(Problem(), layout);
      for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions) {
        const int64_t hidden = std::count_if(n.exchanges.begin(), n.exchanges.end(),
                                             [](const ExchangeNote& note) { return note.is_hidden(); });
        const bool forward = n.op == plan::Op::kForward, backward = n.op == plan::Op::kBackward;
        const bool in_layer = (n.block == 1 || n.block == 2) && (forward || backward);
        const int64_t sums = 2 * (chunks - 1) + (backward ? 2 : 0), passes = sequence_parallel ? 2 : 0;
        EXPECT_EQ(hidden, chunks == 1 || !in_layer ? 0 : sums + passes) << plan::op_name(n.op);
      }
    }
}

/// Chunks combined with experts, adapters, context parallelism, recomputation and pipelines.
TEST(TensorParallel, ChunksChangeNoBitOfOtherForms) {
  Layout layout;
  layout.tp = 2, layout.accumulation = 2;
  const auto compare = [](const Problem& problem, Layout chunked, const char* what) {
    const std::vector<StepRecord> expected = run_layout(problem, chunked, 2);
    chunked.tp_chunks = 3;
    EXPECT_EQ(first_difference(expected, run_layout(problem, chunked, 2)), "") << what;
  };
  Problem problem;
  problem.experts = R"({"experts": 4, "top_k": 2, "width": 20, "layers": [1]})";
  compare(problem, layout, "experts");
  problem.experts = "", problem.adapter = R"({"rank": 3, "dropout": 0.2})";
  compare(problem, layout, "adapters");
  problem.adapter = "", problem.like_gpt2 = false;
  for (const char* mode : {"ring", "ulysses", "gather"}) {
    Layout columns = layout;
    columns.cp = 2, columns.cp_mode = mode;
    compare(problem, columns, mode);
  }
  for (const char* policy : {"full", "selective"}) {
    Layout recomputed = layout;
    recomputed.recompute = std::string(R"({"policy": ")") + policy + R"("})";
    compare(problem, recomputed, policy);
  }
  for (const char* schedule : {"zb_h1", "dualpipev"}) {
    Layout stages = layout;
    stages.pp = 2, stages.schedule = schedule, stages.accumulation = 4;
    Problem deep = problem;
    deep.layers = 4;
    compare(deep, stages, schedule);
  }
}

TEST(TensorParallel, GivesNoViewOfAPartOfATensor) {
  Layout layout;
  layout.tp = 2;
  LayoutRun run(Problem(), layout);
  const train::Tensors& tensors = run.trainer().tensors();
  EXPECT_NO_THROW(tensors.location(train::TensorKind::kWeight, "final_norm.weight"));
  try {
    tensors.location(train::TensorKind::kWeight, "blocks.0.mlp.down.weight");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnimplemented);
    EXPECT_NE(e.message().find("divided among 2 ranks (/mesh/tp)"), std::string::npos) << e.message();
  }
}

TEST(TensorParallel, HybridShardsToo) {
  for (const Problem& problem : problems()) {
    Layout ddp;
    ddp.tp = 2, ddp.dp_shard = 4, ddp.sum_group = 2;
    const std::vector<StepRecord> expected = run_layout(problem, ddp, 2);
    for (const int64_t stage : {1, 2, 3}) {
      Layout layout;
      layout.tp = 2, layout.dp_replicate = 2, layout.dp_shard = 2, layout.stage = stage;
      EXPECT_EQ(first_difference(expected, run_layout(problem, layout, 2)), "") << layout.name();
    }
  }
}

}  // namespace tensor_parallel_test
}  // namespace hawser::testing
