// Rows test: with /recompute/rows an MLP works on some rows at a time, which changes no bit under any layout,
// and its workspace follows the closed form, also for rows of 131,072 tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/recompute_bits.h"

namespace hawser::testing {
namespace rows_test {

using Json = nlohmann::json;

constexpr int kSteps = 2;

/// Rows of 1, an odd number, more than one block of a sum, and all.
const char* const kSections[] = {
    R"({"rows": 1})",
    R"({"rows": 5, "policy": "full"})",
    R"({"rows": 401, "policy": "selective"})",
    R"({"rows": 3, "policy": "every", "every": 2})",
    R"({"rows": 1000000, "policy": "full"})",
};

void expect_bits(const Problem& problem, const Layout& layout, const std::vector<const char*>& sections) {
  expect_recompute_bits(problem, layout, sections, kSteps);
}

TEST(Rows, ChangeNoBit) {
  const std::vector<const char*> all(std::begin(kSections), std::end(kSections));
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
    for (const bool like_gpt2 : {true, false}) {
      Problem problem;
      problem.optimizer = "sgd";
      problem.fp8 = R"({"history": 1, "margin": 12})";
      problem.precision = precision, problem.like_gpt2 = like_gpt2, problem.documents = !like_gpt2;
      problem.layers = 3;
      problem.micro_batch = 84;  // 1,008 tokens: several blocks of a sum
      Layout layout;
      layout.accumulation = 2;
      expect_bits(problem, layout, all);
    }
}

TEST(Rows, ChangeNoBitUnderAnyLayout) {
  std::vector<Layout> layouts(13);
  layouts[0].dp_shard = 3, layouts[0].stage = 3;
  layouts[1].dp_replicate = 2, layouts[1].dp_shard = 2, layouts[1].stage = 2;
  layouts[2].tp = 2, layouts[2].dp_shard = 2, layouts[2].stage = 2, layouts[2].reduce = "per_micro_batch";
  layouts[3].tp = 2, layouts[3].sequence_parallel = false;
  layouts[4].cp = 2, layouts[4].tp = 2;
  layouts[5].cp = 2, layouts[5].cp_mode = "ulysses";
  layouts[6].pp = 2, layouts[6].dp_shard = 2, layouts[6].stage = 3;
  layouts[7].pp = 2, layouts[7].schedule = "interleaved", layouts[7].chunks = 2, layouts[7].tp = 2;
  layouts[8].pp = 2, layouts[8].schedule = "zb_h1", layouts[8].dp_shard = 2, layouts[8].stage = 3;
  layouts[9].pp = 2, layouts[9].schedule = "zbv", layouts[9].tp = 2;
  layouts[10].pp = 2, layouts[10].schedule = "dualpipev";
  const std::string folder = ::testing::TempDir();
  layouts[11].offload = Json({{"activations", "disk"}, {"folder", folder}}).dump();
  layouts[12].dp_shard = 2, layouts[12].stage = 3;
  layouts[12].offload =
      Json({{"activations", "disk"}, {"parameters", "disk"}, {"optimizer", "disk"}, {"folder", folder}})
          .dump();
  for (size_t i = 0; i < layouts.size(); ++i) {
    layouts[i].accumulation = 4;
    Problem problem;
    problem.optimizer = "sgd";
    problem.layers = 4;
    problem.micro_batch = i % 2 == 0 ? 2 : 70;
    expect_bits(problem, layouts[i], {kSections[i % 4], kSections[1], kSections[2 + i % 3]});
  }
}

/// Mixtures next to MLPs: experts work in rounds and ignore rows.
TEST(Rows, ChangeNoBitBesideExperts) {
  Problem problem;
  problem.optimizer = "sgd";
  problem.layers = 3;
  problem.experts = R"({"experts": 4, "top_k": 2, "width": 16, "shared_width": 12, "layers": [1]})";
  Layout serial, divided;
  divided.dp_shard = 4, divided.ep = 2;
  for (Layout* layout : {&serial, &divided}) {
    layout->accumulation = 2;
    expect_bits(problem, *layout, {kSections[0], kSections[1], kSections[2]});
  }
}

/// Returns the costs of a block with the MLP of Qwen2.5-0.5B, in bf16 at so many tokens. Its one narrow head
/// needs less workspace than the MLP.
nn::ModelCosts costs_of(int64_t tokens, const std::string& recompute) {
  const std::string text = fmt::format(
      R"({{"model": {{"layers": 1, "vocab_size": 512, "context": 1048576, "width": 896, "heads": 1,
                      "head_dim": 16, "mlp_width": 4864, "norm": "rms_norm", "mlp": "swiglu",
                      "position": "rotary", "tied_head": false}},
          "precision": "bf16", "batch": {{"micro_batch": 1, "sequence": {}}}, "recompute": {}}})",
      tokens, recompute);
  const config::ResolvedConfig config = train::assemble(config::ConfigTree::from_json(text)).config;
  const nn::Model model(config.model);
  return nn::measure_costs(model, *kernel_tables().back(), 2, DType::kBf16, 1, tokens, true, false,
                           nn::kAlone, nn::kAllColumns, nullptr, {false, config.recompute.remakes});
}

/// In the backward of the MLP of T tokens, R at a time (e bytes an element, F' = 2F as the MLP is gated):
/// without tiles e (C + F' + F) T + 4 C T; with tiles e 2 C T + 4 (C + 1) T and e (F' + F) R, with e F' R
/// more if the hidden array is recomputed, besides the workspace of products and sums of segments.
TEST(Rows, TakeTheWorkspaceOfTheClosedForm) {
  const int64_t c = 896, f = 4864, e = 2, rows = 8192;
  const auto workspace = [&](int64_t tokens, const std::string& recompute) {
    return costs_of(tokens, recompute).block_backward[0].workspace;
  };
  const int64_t t1 = 131072, t2 = 2 * t1;
  EXPECT_EQ(workspace(t2, R"({"policy": "full"})") - workspace(t1, R"({"policy": "full"})"),
            (e * (c + 3 * f) + 4 * c) * (t2 - t1));
  const std::string tiled = fmt::format(R"({{"policy": "full", "rows": {}}})", rows);
  EXPECT_EQ(workspace(t2, tiled) - workspace(t1, tiled), (e * 2 * c + 4 * (c + 1)) * (t2 - t1));
  // What grows with R is one tile.
  const std::string wide = fmt::format(R"({{"policy": "full", "rows": {}}})", 2 * rows);
  EXPECT_NEAR(static_cast<double>(workspace(t1, wide) - workspace(t1, tiled)),
              static_cast<double>(e * 5 * f * rows), 0.1 * static_cast<double>(e * 5 * f * rows));
  // One block's hidden array is no longer recomputed.
  EXPECT_EQ(costs_of(t1, R"({"policy": "full"})").block_recompute[0].remade -
                costs_of(t1, tiled).block_recompute[0].remade,
            e * 2 * f * t1);
}

TEST(Rows, ComputeNoMoreThanFullRecompute) {
  const auto flops = [&](const std::string& recompute) {
    const nn::ModelCosts costs = costs_of(16384, recompute);
    return costs.block_recompute[0].flops + costs.block_backward[0].flops;
  };
  const double whole = flops(R"({"policy": "full"})");
  EXPECT_NEAR(flops(R"({"policy": "full", "rows": 2048})"), whole, 1e-3 * whole);
}

}  // namespace rows_test
}  // namespace hawser::testing
