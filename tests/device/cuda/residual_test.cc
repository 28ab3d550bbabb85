// Trains on a CUDA device with a residual stream of bf16 (/cuda/residual): near the results with a stream of
// f32, and with the bits of one layout in all others.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/device/cuda/tensor_distance.h"
#include "tests/harness/answers.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/reference_run.h"

namespace hawser::testing {
namespace residual_test {

Problem narrow_stream() {
  Problem problem;
  problem.precision = "bf16";
  problem.device = "cuda", problem.device_transport = "host";
  problem.residual = "bf16";
  return problem;
}

/// Uses SGD, because AdamW turns rounding errors into steps of size lr where a gradient is zero. Largest
/// distances measured on the emulated GPU: 1e-4 of the loss, 1e-3 of the norm, 7e-2 of gradients, 1e-2 of
/// weights; with qk-norms and post-norms 1e-4, 1e-2, 0.3 and 2e-2.
TEST(ResidualStreamOfBf16, TrainsNearAStreamOfF32) {
  for (const bool like_gpt2 : {true, false}) {
    Problem narrow = narrow_stream();
    narrow.optimizer = "sgd", narrow.like_gpt2 = like_gpt2;
    Problem wide = narrow;
    wide.residual = "f32";
    const std::vector<StepRecord> want = reference_run(wide, Layout(), 3),
                                  got = run_layout(narrow, Layout(), 3);
    EXPECT_NE(first_difference(want, got), "");
    for (size_t step = 0; step < want.size(); ++step) {
      const double loss = std::abs(got[step].loss / want[step].loss - 1);
      const double norm = std::abs(got[step].grad_norm / want[step].grad_norm - 1);
      const double gradients = tensor_distance(want[step].gradients, got[step].gradients);
      const double weights = tensor_distance(want[step].weights, got[step].weights);
      std::printf("distance: loss %.2g, grad_norm %.2g, gradients %.2g, weights %.2g\n", loss, norm,
                  gradients, weights);
      EXPECT_LT(loss, 5e-4);
      EXPECT_LT(norm, like_gpt2 ? 5e-3 : 5e-2);
      EXPECT_LT(gradients, like_gpt2 ? 0.3 : 1.2);
      EXPECT_LT(weights, like_gpt2 ? 4e-2 : 8e-2);
    }
  }
}

/// With dropout, the head computes the last sum separately. Without, products read the rounded gradient.
TEST(ResidualStreamOfBf16, HasTheSameBitsIfActivationsAreRecomputedOrInHostMemory) {
  for (const double dropout : {0.0, 0.1}) {
    Problem problem = narrow_stream();
    problem.layers = 3, problem.dropout = dropout;
    std::vector<Layout> layouts;
    for (const char* recompute : {R"({"policy": "full"})", R"({"policy": "every", "every": 2})",
                                  R"({"policy": "selective", "arrays": ["attention", "mlp_hidden", "qkv"]})"})
      layouts.emplace_back().recompute = recompute;
    layouts.emplace_back().offload = R"({"activations": "host"})";
    for (const Layout& layout : layouts)
      EXPECT_EQ(first_difference(reference_run(problem, Layout(), 2), run_layout(problem, layout, 2)), "")
          << dropout << layout.recompute << layout.offload;
  }
}

/// Stages send the stream, and its gradient in f32.
TEST(ResidualStreamOfBf16, HasTheBitsOfOneRankOnStagesOfAPipeline) {
  Problem problem = narrow_stream();
  problem.layers = 4;
  Layout one;
  one.accumulation = 4;
  for (const char* schedule : {"1f1b", "zbv"}) {
    Layout stages = one;
    stages.pp = 2, stages.schedule = schedule;
    if (stages.schedule == "1f1b") stages.recompute = R"({"policy": "full"})";
    EXPECT_EQ(first_difference(reference_run(problem, one, 2), run_layout(problem, stages, 2)), "")
        << schedule;
  }
}

TEST(ResidualStreamOfBf16, HasTheBitsOfDataParallelRanksWithEveryZeroStage) {
  Problem problem = narrow_stream();
  problem.dropout = 0;
  Layout ddp;
  ddp.dp_shard = 2, ddp.accumulation = 2;
  for (const int64_t stage : {1, 2, 3}) {
    Layout zero = ddp;
    zero.stage = stage;
    if (stage == 3) zero.recompute = R"({"policy": "full"})";
    EXPECT_EQ(first_difference(reference_run(problem, ddp, 2), run_layout(problem, zero, 2)), "") << stage;
  }
}

/// Ranks that divide the vocabulary add rows of the embedding in f32; those that divide branches, outputs.
TEST(ResidualStreamOfBf16, TrainsOnRanksThatDivideBlocksAndColumns) {
  for (const auto& [tp, cp, sequence_parallel] :
       {std::tuple<int64_t, int64_t, bool>{2, 1, false}, {2, 1, true}, {1, 2, true}}) {
    Problem problem = narrow_stream();
    problem.optimizer = "sgd";
    Layout layout;
    layout.tp = tp, layout.cp = cp, layout.sequence_parallel = sequence_parallel;
    const std::vector<StepRecord> want = reference_run(problem, Layout(), 2),
                                  got = run_layout(problem, layout, 2);
    for (size_t step = 0; step < want.size(); ++step) {
      const double loss = std::abs(got[step].loss / want[step].loss - 1);
      const double gradients = tensor_distance(want[step].gradients, got[step].gradients);
      std::printf("distance: loss %.2g, gradients %.2g\n", loss, gradients);
      EXPECT_LT(loss, 1e-3) << layout.name();
      EXPECT_LT(gradients, 0.5) << layout.name();
    }
  }
}

/// Evaluation and generation send the stream as well.
TEST(ResidualStreamOfBf16, AnswersOnStagesWithTheBitsOfOneRank) {
  Problem problem = narrow_stream();
  problem.layers = 4;
  Layout stages;
  stages.pp = stages.accumulation = 2;
  LayoutRun one(problem, Layout()), two(problem, stages);
  const Answers want = ask(one.trainer(), problem, 9), got = ask(two.trainer(), problem, 9);
  EXPECT_EQ(want.logits, got.logits);
  EXPECT_EQ(want.logprobs, got.logprobs);
  EXPECT_EQ(want.loss, got.loss);
  EXPECT_EQ(want.text, got.text);
  EXPECT_EQ(want.text.size(), 20u);
}

TEST(ResidualStreamOfBf16, HasTheSameBitsInGraphs) {
  Problem problem = narrow_stream();
  problem.weights_every = 0;
  Problem direct = problem;
  direct.graphs = false;
  EXPECT_EQ(first_difference(run_layout(direct, Layout(), 3), run_layout(problem, Layout(), 3)), "");
}

}  // namespace residual_test
}  // namespace hawser::testing
