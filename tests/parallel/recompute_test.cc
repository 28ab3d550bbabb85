// Recompute changes no bit, under any layout, and keeps what its formula says.
#include <gtest/gtest.h>

#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace {

constexpr int kSteps = 3;

void expect_bits(const Problem& problem, const Layout& layout) {
  Layout again = layout;
  again.recompute = true;
  EXPECT_EQ(first_difference(run_layout(problem, layout, kSteps), run_layout(problem, again, kSteps)), "")
      << again.name();
}

TEST(Recompute, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const bool like_gpt2 : {true, false}) {
      Problem problem;
      problem.precision = precision, problem.like_gpt2 = like_gpt2, problem.documents = !like_gpt2;
      problem.frozen = like_gpt2;
      Layout layout;
      layout.accumulation = 3;
      expect_bits(problem, layout);
    }
}

TEST(Recompute, ChangesNoBitUnderAnyLayout) {
  std::vector<Layout> layouts(11);
  layouts[0].dp_shard = 3, layouts[0].stage = 3;
  layouts[1].dp_shard = 2, layouts[1].stage = 3, layouts[1].reshard = "keep", layouts[1].prefetch = 2;
  layouts[2].dp_shard = 4, layouts[2].stage = 3, layouts[2].reshard = "group", layouts[2].reshard_group = 2;
  layouts[3].tp = 2, layouts[3].dp_shard = 2, layouts[3].stage = 2, layouts[3].reduce = "per_micro_batch";
  layouts[4].cp = 2, layouts[4].tp = 2;
  layouts[5].cp = 2, layouts[5].cp_mode = "ulysses";
  layouts[6].pp = 2, layouts[6].dp_shard = 2, layouts[6].stage = 3;
  layouts[7].pp = 2, layouts[7].schedule = "interleaved", layouts[7].chunks = 2, layouts[7].tp = 2;
  layouts[8].pp = 2, layouts[8].schedule = "zb_h1", layouts[8].dp_shard = 2, layouts[8].stage = 3;
  layouts[9].pp = 2, layouts[9].schedule = "zbv", layouts[9].tp = 2;
  layouts[10].pp = 2, layouts[10].schedule = "dualpipev";
  for (Layout& layout : layouts) {
    layout.accumulation = 4;
    Problem problem;
    problem.layers = 4;
    expect_bits(problem, layout);
  }
}

/// Activations at the peak of a micro-batch of L blocks: the inputs of all, what one saves, and gradients.
TEST(Recompute, KeepsInputsAndWhatOneBlockSaves) {
  const auto activations = [](bool recompute, int64_t layers) {
    Problem problem;
    problem.layers = layers;
    Layout layout;
    layout.recompute = recompute;
    LayoutRun run(problem, layout);
    return run.trainer().ranks().first().plans().train.at_peak[static_cast<size_t>(
        plan::Category::kActivations)];
  };
  const int64_t residual = 2 * 12 * 24 * 4;  // rows x width, f32
  EXPECT_EQ(activations(true, 9) - activations(true, 5), 4 * residual);
  EXPECT_GT(activations(false, 9) - activations(false, 5), 4 * 5 * residual);
}

/// As tensor-parallel ranks exchange once more.
TEST(Recompute, SendsWhatItsPlanSays) {
  Layout layout;
  layout.tp = 2, layout.accumulation = 2, layout.recompute = true;
  LayoutRun run(Problem(), layout);
  run.step();
  int64_t sent = 0;
  for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
    sent += n.sent_bytes;
  EXPECT_NE(run.trainer().metrics().json().find("\"communication_bytes\":" + std::to_string(sent) + ","),
            std::string::npos);
}

}  // namespace
}  // namespace hawser::testing
