// Tests gradients that the kernels of layers round: if a step has one micro-batch, layers need no window, and
// every layout has the bits of a run that rounds gradients from windows.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace rounded_gradients_test {

using Json = nlohmann::json;

/// With rows in tiles, several products add to each gradient, so gradients are rounded from windows. Tiles
/// change no bit.
constexpr const char* kTiles = R"({"rows": 5})";

struct Windows {
  int64_t slots = 0, rounded = 0;  ///< of layers
  int64_t others = 0;              ///< ROUND_GRAD of the embedding and the head
};

Windows windows_of(train::Trainer& trainer, int64_t layers) {
  Windows w;
  for (int32_t rank = 0; rank < trainer.ranks().here(); ++rank) {
    const plan::Plan& plan = trainer.ranks().at(rank).plans().train;
    const auto is_layer = [&](int64_t block) { return block > 0 && block <= layers; };
    for (const plan::Slot& slot : plan.slots)
      w.slots += slot.role == plan::Role::kGradientWindow && is_layer(slot.block) ? 1 : 0;
    for (const plan::Instruction& n : plan.instructions)
      if (n.op == plan::Op::kRoundGrad) ++(is_layer(n.block) ? w.rounded : w.others);
  }
  return w;
}

void expect_bits_of_windows(Problem problem, Layout layout) {
  SCOPED_TRACE(layout.name());
  problem.precision = "bf16_pure";
  LayoutRun rounding(problem, layout);
  layout.recompute = kTiles;
  LayoutRun with_windows(problem, layout);
  const Windows none = windows_of(rounding.trainer(), problem.layers),
                all = windows_of(with_windows.trainer(), problem.layers);
  EXPECT_EQ(none.slots + none.rounded, 0);
  EXPECT_GT(none.others, 0);
  EXPECT_GT(std::min(all.slots, all.rounded), 0);
  std::vector<StepRecord> a, b;
  for (int step = 0; step < 2; ++step) a.push_back(rounding.step()), b.push_back(with_windows.step());
  EXPECT_EQ(first_difference(a, b), "");
  for (LayoutRun* run : {&rounding, &with_windows}) {
    const Json memory = Json::parse(run->trainer().reports().info_json()).at("memory");
    EXPECT_EQ(memory.at("high_water_bytes"), memory.at("planned_bytes"));
  }
}

/// Returns a problem with so many rows that a sum over them has several blocks. With like_gpt2, the model has
/// biases.
Problem problem_of(bool like_gpt2) {
  Problem problem;
  problem.like_gpt2 = like_gpt2, problem.micro_batch = 84;
  return problem;
}

TEST(RoundedGradients, HaveTheBitsOfWindows) {
  for (const bool like_gpt2 : {false, true})
    for (const bool tied : {true, false})
      for (const char* const optimizer : {"adamw", "sgd"}) {
        Problem problem = problem_of(like_gpt2);
        problem.tied = tied, problem.optimizer = optimizer, problem.documents = tied;
        expect_bits_of_windows(problem, Layout());
      }
}

TEST(RoundedGradients, HaveTheBitsOfWindowsInEveryLayout) {
  std::vector<Layout> layouts(10);
  layouts[0].dp_shard = 3, layouts[0].stage = 3;
  layouts[1].dp_replicate = 2, layouts[1].dp_shard = 2, layouts[1].stage = 2;
  layouts[2].dp_shard = 2, layouts[2].stage = 1;
  layouts[3].dp_shard = 2, layouts[3].stage = 2, layouts[3].bucket_bytes = 3000;
  layouts[4].tp = 2, layouts[4].dp_shard = 2, layouts[4].stage = 2;
  layouts[5].tp = 2, layouts[5].sequence_parallel = false;
  layouts[6].cp = 2, layouts[6].tp = 2;
  layouts[7].cp = 2, layouts[7].cp_mode = "ulysses";
  layouts[8].pp = 2, layouts[8].schedule = "zb_h1";
  layouts[9].recompute = R"({"policy": "full"})";
  for (const bool like_gpt2 : {false, true})
    for (const Layout& layout : layouts) {
      Problem problem = problem_of(like_gpt2);
      problem.tied = layout.pp == 1;
      expect_bits_of_windows(problem, layout);
    }
}

TEST(RoundedGradients, NeedOneMicroBatch) {
  Problem problem;
  problem.precision = "bf16_pure";
  for (const bool like_gpt2 : {true, false})
    for (const int64_t micro_batches : {1, 2}) {
      Layout layout;
      layout.accumulation = micro_batches;
      problem.like_gpt2 = like_gpt2;
      LayoutRun run(problem, layout);
      const Windows w = windows_of(run.trainer(), problem.layers);
      const int64_t expected = micro_batches > 1 ? problem.layers * micro_batches : 0;
      EXPECT_EQ(w.slots, expected);
      EXPECT_EQ(w.rounded, expected);
    }
}

}  // namespace rounded_gradients_test
}  // namespace hawser::testing
