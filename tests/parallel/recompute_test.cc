// Recompute test: recompute changes no bit under any layout, and saves what its formula gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/recompute_bits.h"

namespace hawser::testing {
namespace recompute_test {

constexpr int kSteps = 3;

const char* const kFull = R"({"policy": "full"})";
const char* const kPolicies[] = {
    kFull,
    R"({"policy": "selective"})",
    R"({"policy": "selective", "arrays": ["qkv"]})",
    R"({"policy": "selective", "arrays": ["attention"]})",
    R"({"policy": "selective", "arrays": ["attention", "mlp_hidden", "qkv"]})",
    R"({"policy": "every", "every": 2})",
    R"({"policy": "every", "every": 3})",
};

void expect_bits(const Problem& problem, const Layout& layout, const std::vector<const char*>& policies) {
  expect_recompute_bits(problem, layout, policies, kSteps);
}

TEST(Recompute, ChangesNoBit) {
  const std::vector<const char*> all(std::begin(kPolicies), std::end(kPolicies));
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
    for (const bool like_gpt2 : {true, false}) {
      Problem problem;
      problem.precision = precision, problem.like_gpt2 = like_gpt2, problem.documents = !like_gpt2;
      problem.frozen = like_gpt2;
      Layout layout;
      layout.accumulation = 3;
      problem.layers = 5;
      expect_bits(problem, layout, all);
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
  for (size_t i = 0; i < layouts.size(); ++i) {
    layouts[i].accumulation = 4;
    Problem problem;
    problem.layers = 4;
    const bool ulysses = layouts[i].cp_mode == "ulysses";
    expect_bits(problem, layouts[i], {kFull, kPolicies[ulysses ? 4 : 1 + i % 4], kPolicies[5 + i % 2]});
  }
}

/// Returns activations at the peak of a micro-batch of L blocks: all inputs, one block's saved activations,
/// and gradients.
TEST(Recompute, KeepsInputsAndWhatOneBlockSaves) {
  const auto activations = [](const char* recompute, int64_t layers) {
    Problem problem;
    problem.layers = layers;
    Layout layout;
    layout.recompute = recompute;
    LayoutRun run(problem, layout);
    return run.trainer().ranks().first().plans().train.at_peak[static_cast<size_t>(
        plan::Category::kActivations)];
  };
  const int64_t residual = 2 * 12 * 24 * 4;  // rows x width, f32
  EXPECT_EQ(activations(kFull, 9) - activations(kFull, 5), 4 * residual);
  EXPECT_EQ(activations(kPolicies[5], 12) - activations(kPolicies[5], 8), 2 * residual);
  EXPECT_GT(activations("", 9) - activations("", 5), 4 * 5 * residual);
}

/// Compares bytes per token and layer of Llama 3 8B in bf16.
TEST(Recompute, SavesWhatTheClosedFormSays) {
  const auto bytes = [](const char* recompute) {
    const std::string text = fmt::format(
        R"({{"preset": "llama-3.1-8b", "model": {{"layers": 2, "vocab_size": 512}}, "precision": "bf16",
            "batch": {{"micro_batch": 1, "sequence": 1024}}, "recompute": {}}})",
        *recompute ? recompute : "{}");
    const config::ResolvedConfig config = train::assemble(config::ConfigTree::from_json(text)).config;
    const nn::Model model(config.model);
    const nn::ModelCosts costs =
        nn::measure_costs(model, *kernel_tables().back(), 1, DType::kBf16, 1, 1024, true, false, nn::kAlone,
                          nn::kAllColumns, nullptr, {false, config.recompute.remakes});
    return costs.block_forward[0].saved / 1024;
  };
  EXPECT_EQ(bytes(""), 94344);
  EXPECT_EQ(bytes(kFull), 0);  // only its input of 4 x 4096 bytes is saved
  EXPECT_EQ(bytes(kPolicies[1]), 94344 - 2 * 2 * 14336);
  EXPECT_EQ(bytes(kPolicies[2]), 94344 - 2 * 48 * 128);
  EXPECT_EQ(bytes(kPolicies[3]), 94344 - 2 * 4096 - 4 * 32);
}

/// Tensor-parallel ranks exchange once more to recompute.
TEST(Recompute, SendsWhatItsPlanSays) {
  Layout layout;
  layout.tp = 2, layout.accumulation = 2, layout.recompute = kFull;
  LayoutRun run(Problem(), layout);
  run.step();
  int64_t sent = 0;
  for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
    sent += n.sent_bytes;
  EXPECT_NE(run.trainer().metrics().json().find("\"communication_bytes\":" + std::to_string(sent) + ","),
            std::string::npos);
}

}  // namespace recompute_test
}  // namespace hawser::testing
