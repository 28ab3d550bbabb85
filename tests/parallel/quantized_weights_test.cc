// Quantised weights (qwZ): every rank computes with the rounded weights, the owner too, and steps update the
// exact ones. The bits do not depend on when weights are gathered, or from whom.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/cpu/block_records_reference.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_language.h"

namespace hawser::testing {
namespace quantized_weights_test {

using Weights = std::map<std::string, std::vector<float>>;

Layout sharded(int64_t ranks) {
  Layout l;
  l.dp_shard = ranks, l.stage = 3, l.accumulation = 2, l.quantized_weights = "int8";
  return l;
}

Weights weights_of(const train::Trainer& trainer) {
  Weights weights;
  for (const nn::Parameter& p : trainer.ranks().model().table().all()) {
    std::vector<float>& values = weights[p.name];
    values.resize(static_cast<size_t>(p.size));
    trainer.tensors().get(train::TensorKind::kWeight, p.name, values.data(), values.size() * sizeof(float));
  }
  return weights;
}

/// Gives a run without records the weights of another as these are gathered: those of linears in records that
/// begin at each parameter.
void set_rounded(const Weights& weights, train::Trainer* to) {
  for (const nn::Parameter& p : to->ranks().model().table().all()) {
    std::vector<float> values = weights.at(p.name);
    if (nn::is_linear(p)) values = kernels::through_blocks(DType::kI8Block, values);
    to->tensors().set(train::TensorKind::kWeight, p.name, values.data(), values.size() * sizeof(float));
  }
}

/// The formula, from outside: losses and raw gradients are those of a run without records whose weights have
/// been rounded, in every step.
TEST(QuantizedWeights, ComputeWithTheRoundedWeights) {
  for (const char* precision : {"fp32", "bf16"})
    for (const int64_t ranks : {2, 3, 4})
      for (const bool like_gpt2 : {true, false}) {
        Problem p;
        p.precision = precision, p.like_gpt2 = like_gpt2, p.tied = ranks != 3, p.frozen = ranks == 4;
        // Weights that one product reads have whole records, so that it adds in the same order; others end
        // within one.
        p.width = 32, p.mlp_width = like_gpt2 ? 41 : 40;
        Layout l = sharded(ranks);
        if (ranks == 3) l.reshard = "keep";
        SCOPED_TRACE(l.name() + " " + precision);
        LayoutRun run(p, l);
        l.quantized_weights = "off";
        LayoutRun plain(p, l);
        for (int step = 0; step < 3; ++step) {
          set_rounded(weights_of(run.trainer()), &plain.trainer());
          const StepRecord got = run.step(), expected = plain.step();
          EXPECT_EQ(got.loss, expected.loss);
          for (const auto& [name, values] : expected.gradients)
            EXPECT_TRUE(values == got.gradients.at(name)) << name << " in step " << step;
        }
      }
}

TEST(QuantizedWeights, GiveTheSameBitsHoweverTheyAreGathered) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem p;
    p.precision = precision, p.layers = 4;
    const std::vector<StepRecord> expected = run_layout(p, sharded(4), 3);
    std::vector<Layout> layouts(5, sharded(4));
    layouts[0].prefetch = 0, layouts[1].prefetch = 3, layouts[2].reshard = "keep";
    layouts[3].reshard = "group", layouts[3].reshard_group = 2;
    layouts[4].recompute = R"({"policy": "full"})";
    for (const Layout& l : layouts)
      EXPECT_EQ(first_difference(expected, run_layout(p, l, 3)), "") << l.name();
    Layout grouped = sharded(4), hybrid = sharded(2);
    grouped.sum_group = 2, hybrid.dp_replicate = 2;
    grouped.quantized_gradients = hybrid.quantized_gradients = "int8";
    EXPECT_EQ(first_difference(run_layout(p, grouped, 3), run_layout(p, hybrid, 3)), "");
    Layout two = sharded(2), pipeline = sharded(2);
    pipeline.pp = 2;
    EXPECT_EQ(first_difference(run_layout(p, two, 3), run_layout(p, pipeline, 3)), "");
  }
}

/// Experts and heads stay; shared experts and latent projections are linears.
TEST(QuantizedWeights, OfExpertsAndLatentAttentionTrain) {
  Problem experts, latent;
  experts.like_gpt2 = latent.like_gpt2 = false;
  experts.experts = R"({"experts": 4, "top_k": 2, "width": 20, "shared_width": 12})";
  latent.latent = R"({"kv_rank": 12, "q_rank": 10, "rope_dim": 4, "value_dim": 6})";
  for (const Problem& p : {experts, latent}) {
    const std::vector<StepRecord> full = run_layout(p, sharded(2), 2);
    Layout keep = sharded(2), exact = sharded(2);
    keep.reshard = "keep", exact.quantized_weights = "off";
    EXPECT_EQ(first_difference(full, run_layout(p, keep, 2)), "");
    EXPECT_NE(first_difference(full, run_layout(p, exact, 2)), "");
  }
}

TEST(QuantizedWeights, LearnAsExactOnes) {
  Layout layout = sharded(4);
  layout.accumulation = 1;
  const double rounded = learned_loss(layout);
  layout.quantized_weights = "off";
  const double exact = learned_loss(layout);
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(rounded, exact, 0.01 * exact);
}

/// A load encodes the weights that it brings.
TEST(QuantizedWeights, GiveTheSameBitsAfterAResume) {
  const Problem p;
  const Layout layout = sharded(3);
  const std::vector<StepRecord> expected = run_layout(p, layout, 4);
  const std::string folder = ::testing::TempDir() + "/quantized_weights";
  std::filesystem::remove_all(folder);
  {
    LayoutRun run(p, layout);
    for (int step = 0; step < 2; ++step) run.step();
    run.trainer().saves().save(folder);
  }
  LayoutRun run(p, layout);
  run.trainer().loads().load(folder, false);
  run.skip_to(2);
  std::vector<StepRecord> resumed(expected.begin(), expected.begin() + 2);
  for (int step = 2; step < 4; ++step) resumed.push_back(run.step());
  EXPECT_EQ(first_difference(expected, resumed), "");
  std::filesystem::remove_all(folder);
}

/// Gathered copies shrink to 66/64 bytes a weight, but for what is not a linear.
TEST(QuantizedWeights, TakeLessMemoryWhereTheyAreGathered) {
  Problem p;
  p.width = 64, p.mlp_width = 256;
  Layout layout = sharded(2);
  const auto largest_copy = [&](const char* type) {
    layout.quantized_weights = type;
    LayoutRun run(p, layout);
    int64_t bytes = 0;
    for (const plan::Slot& slot : run.trainer().ranks().first().plans().train.slots)
      if (slot.role == plan::Role::kWeights && slot.block == 1) bytes = std::max(bytes, slot.bytes);
    return bytes;
  };
  const int64_t exact = largest_copy("off"), records = largest_copy("int8");
  EXPECT_GT(exact, 3 * records);
  EXPECT_LT(exact, 4 * records);
}

}  // namespace quantized_weights_test
}  // namespace hawser::testing
