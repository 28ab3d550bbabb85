// Adapter test: under every layout, adapters have the bits of plain data parallelism (promise L2), one rank
// is within an envelope (promise L4), and `prove` passes, which trains the same layouts in a smaller form.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/config/config_tree.h"
#include "engine/proof/prove_layout.h"
#include "tests/harness/answers.h"
#include "tests/harness/near_one_rank.h"
#include "tests/harness/same_bits.h"

namespace hawser::testing {
namespace adapter_test {

/// The cases are one A for q, k and v, with dropout; adapters of their own on all linears, with parameters
/// trained in full; latent attention; a shared expert; and magnitudes.
std::vector<Problem> problems() {
  std::vector<Problem> all(5);
  all[0].adapter = R"({"rank": 3, "dropout": 0.3})";
  all[1].adapter = R"({"rank": 4, "rslora": true, "ranks": [{"of": "mlp.*", "rank": 2}],
                       "train": ["*_norm.weight", "head.weight", "blocks.1.mlp.down.*"]})";
  all[1].like_gpt2 = false, all[1].tied = false, all[1].documents = true;
  all[2].adapter = R"({"rank": 2, "targets": ["attention.*"]})";
  all[2].like_gpt2 = false;
  all[2].latent = R"({"kv_rank": 12, "q_rank": 14, "rope_dim": 4, "value_dim": 7})";
  all[3].adapter = R"({"rank": 2, "dropout": 0.2, "targets": ["moe.shared.*", "attention.v"]})";
  all[3].like_gpt2 = false;
  all[3].experts = R"({"experts": 6, "top_k": 2, "width": 20, "shared_width": 16})";
  all[4].adapter = R"({"rank": 3, "dora": true, "dropout": 0.2, "train": ["blocks.1.mlp.*.bias"]})";
  return all;
}

TEST(Adapters, EveryStageGivesTheBitsOfDdp) {
  for (const Problem& problem : problems()) expect_stages_same_bits(problem, 3);
}

TEST(Adapters, EverySchedulesHalvesGiveTheBitsOfOneStage) {
  for (const Problem& problem : problems()) expect_schedules_same_bits(problem, 3);
}

TEST(Adapters, RecomputeChangesNoBit) {
  for (const Problem& problem : problems()) {
    Layout kept;
    kept.accumulation = 2;
    for (const char* policy : {R"({"policy": "full"})", R"({"policy": "selective", "arrays": ["qkv"]})",
                               R"({"policy": "selective"})", R"({"policy": "every", "every": 2})"}) {
      Layout again = kept;
      again.recompute = policy;
      expect_same_bits(problem, kept, again, 3);
    }
  }
}

TEST(Adapters, TensorAndContextParallelRanksComputeWhatOneRankDoes) {
  for (Problem problem : problems()) {
    problem.optimizer = "sgd",
    problem.dropout = 0;  // the adapters' masks stay: they are equal on all ranks
    for (const auto& [tp, sp, cp, mode, dp, stage] :
         {std::tuple<int64_t, bool, int64_t, const char*, int64_t, int64_t>{2, true, 1, "ring", 1, 0},
          {2, false, 1, "ring", 1, 0},
          {4, true, 1, "ring", 1, 0},
          {1, false, 2, "ring", 1, 0},
          {1, false, 2, "gather", 1, 0},
          {1, false, 2, "ulysses", 1, 0},
          {2, true, 2, "ring", 2, 3}}) {
      if (!sp && tp > 1 && !problem.experts.empty()) continue;  // the config refuses this
      Layout layout;
      layout.tp = tp, layout.sequence_parallel = sp, layout.cp = cp, layout.cp_mode = mode;
      layout.dp_shard = dp, layout.stage = stage, layout.accumulation = 2;
      expect_near_one_rank(problem, layout, 3, 3e-5);
    }
  }
}

/// Tests every layout that promises the bits of one rank, in every precision.
TEST(Adapters, NewMagnitudesChangeNoBit) {
  Layout zero, stages;
  zero.dp_shard = 2, zero.stage = 3;
  stages.pp = 2, stages.accumulation = 2;
  for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
    for (const Layout& layout : {Layout(), zero, stages}) {
      Problem problem;
      problem.precision = precision, problem.tied = false;
      LayoutRun base(problem, layout);
      problem.adapter = R"({"rank": 3, "dora": true})";
      LayoutRun adapted(problem, layout);
      EXPECT_EQ(ask(adapted.trainer(), problem, 7).logits, ask(base.trainer(), problem, 7).logits)
          << precision << " " << layout.name();
    }
}

TEST(Adapters, AreProven) {
  for (const Problem& problem : problems()) {
    for (const bool divided : {false, true}) {
      Layout layout;
      layout.dp_shard = 2, layout.stage = 3, layout.accumulation = 2;
      if (divided) layout.tp = 2;
      const auto proof = nlohmann::json::parse(
          train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 3));
      EXPECT_TRUE(proof.at("equal").get<bool>()) << layout.name() << ": " << proof.dump();
    }
  }
}

/// Each rank has 22 features of the MLP's hidden layer, the widest array of the weight pass, so a mask block,
/// which covers four, begins on the rank below.
TEST(Adapters, TakeMemoryForTheWidestGapOfAnyRank) {
  Problem problem;
  problem.like_gpt2 = false;
  problem.width = 9, problem.heads = 3, problem.kv_heads = 1, problem.head_dim = 6, problem.mlp_width = 66;
  problem.adapter = R"({"rank": 4, "dropout": 0.2})";
  Layout layout;
  layout.tp = 3, layout.pp = 2, layout.schedule = "zb_h1", layout.accumulation = 3;
  const auto proof = nlohmann::json::parse(
      train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 2));
  EXPECT_TRUE(proof.at("equal").get<bool>()) << proof.dump();
}

}  // namespace adapter_test
}  // namespace hawser::testing
