// Latent attention test: under every layout, the bits of plain data parallelism (promise L2), one rank within
// an envelope (promise L4), and the saved and sent bytes by closed form.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/nn/model.h"
#include "engine/parallel/context_parallel.h"
#include "engine/parallel/sequence_parallel.h"
#include "engine/proof/prove_layout.h"
#include "engine/report/plan_report.h"
#include "tests/harness/answers.h"
#include "tests/harness/closed_forms.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/near_one_rank.h"
#include "tests/harness/same_bits.h"

namespace hawser::testing {
namespace latent_test {

using Json = nlohmann::ordered_json;

/// The cases are compressed queries; queries of one matrix with experts, values wider than keys, and several
/// documents in a row; and a compressed row wider than keys and values, which a ring does not send.
std::vector<Problem> problems() {
  std::vector<Problem> all(3);
  for (Problem& p : all) p.like_gpt2 = false;
  all[0].latent = R"({"kv_rank": 12, "q_rank": 14, "rope_dim": 4, "value_dim": 7})";
  all[1].latent = R"({"kv_rank": 8, "rope_dim": 6, "value_dim": 13, "interleaved": false})";
  all[1].experts = R"({"experts": 6, "top_k": 2, "width": 20, "score": "sigmoid", "shared_width": 16})";
  all[1].documents = true, all[1].tied = false;
  all[2].latent = R"({"kv_rank": 90, "q_rank": 5, "rope_dim": 2, "value_dim": 4})";
  return all;
}

TEST(Latent, EveryStageGivesTheBitsOfDdp) {
  for (const Problem& problem : problems()) expect_stages_same_bits(problem, 2);
}

TEST(Latent, EverySchedulesHalvesGiveTheBitsOfOneStage) {
  for (const Problem& base : problems())
    for (const std::string& schedule : steady_schedules()) {
      auto [problem, one, two] = TwoStages(base, schedule);
      expect_same_bits(problem, one, two, 2);
      one.cp = two.cp = 2;  // the input pass computes the gradient of B_kv
      if (schedule == "zb_h1") expect_same_bits(problem, one, two, 2);
    }
}

TEST(Latent, RecomputeChangesNoBit) {
  for (const Problem& problem : problems())
    for (const int64_t cp : {1, 2}) {
      Layout kept;
      kept.accumulation = 2, kept.cp = cp;
      for (const char* policy :
           {R"({"policy": "full"})", R"({"policy": "selective", "arrays": ["qkv"]})",
            R"({"policy": "selective", "arrays": ["attention"]})", R"({"policy": "every", "every": 2})"}) {
        Layout again = kept;
        again.recompute = policy;
        expect_same_bits(problem, kept, again, 2);
      }
    }
  // Ulysses exchanges the elements of one of these arrays together with the other.
  for (const Problem& problem : problems()) {
    Layout kept;
    kept.cp = 2, kept.cp_mode = "ulysses";
    Layout again = kept;
    again.recompute = R"({"policy": "selective", "arrays": ["qkv", "attention"]})";
    expect_same_bits(problem, kept, again, 2);
  }
}

TEST(Latent, TensorAndContextParallelRanksComputeWhatOneRankDoes) {
  for (Problem problem : problems()) {
    problem.optimizer = "sgd", problem.dropout = 0;
    for (const auto& [tp, sp, cp, mode, dp, stage] :
         {std::tuple<int64_t, bool, int64_t, const char*, int64_t, int64_t>{2, true, 1, "ring", 1, 0},
          {2, false, 1, "ring", 1, 0},
          {4, true, 1, "ring", 1, 0},
          {4, false, 1, "ring", 1, 0},
          {1, false, 2, "ring", 1, 0},
          {1, false, 2, "gather", 1, 0},
          {1, false, 2, "ulysses", 1, 0},
          {1, false, 3, "ring", 1, 0},
          {2, true, 2, "ring", 2, 3},
          {2, true, 2, "ulysses", 1, 0},
          {2, false, 2, "gather", 1, 0}}) {
      if (!sp && tp > 1 && !problem.experts.empty()) continue;  // the config refuses this
      Layout layout;
      layout.tp = tp, layout.sequence_parallel = sp, layout.cp = cp, layout.cp_mode = mode;
      layout.dp_shard = dp, layout.stage = stage, layout.accumulation = 2;
      expect_near_one_rank(problem, layout, 2, 3e-5);
    }
  }
}

TEST(Latent, StaysNearOneRankInNarrowTypes) {
  Problem problem = problems()[0];
  problem.precision = "bf16", problem.optimizer = "sgd";
  Layout layout;
  layout.tp = 2, layout.cp = 2, layout.dp_shard = 2, layout.stage = 2;
  expect_near_one_rank(problem, layout, 2, 3e-2);
}

TEST(Latent, EveryStageGivesTheSameBitsBesideTensorAndContextParallelism) {
  for (const Problem& problem : problems())
    for (const auto& [tp, cp] : {std::pair<int64_t, int64_t>{2, 1}, {1, 2}, {2, 2}}) {
      Layout ddp;
      ddp.tp = tp, ddp.cp = cp, ddp.dp_shard = 2, ddp.accumulation = 2;
      for (const int64_t stage : {1, 3}) {
        Layout layout = ddp;
        layout.stage = stage;
        expect_same_bits(problem, ddp, layout, 2);
      }
    }
}

/// Generation caches compressed rows; the text is that of one rank.
TEST(Latent, InferenceGivesWhatOneRankDoes) {
  for (const Problem& problem : problems())
    for (const auto& [tp, cp] : {std::pair<int64_t, int64_t>{2, 1}, {1, 2}, {2, 2}}) {
      Layout layout;
      layout.tp = tp, layout.cp = cp, layout.dp_shard = 2, layout.stage = 3;
      LayoutRun one(problem, Layout()), ranks(problem, layout);
      const Answers want = ask(one.trainer(), problem, 7), got = ask(ranks.trainer(), problem, 7);
      for (size_t i = 0; i < want.logits.size(); ++i) ASSERT_NEAR(got.logits[i], want.logits[i], 2e-5) << i;
      EXPECT_NEAR(got.loss, want.loss, 1e-5);
      EXPECT_EQ(got.text, want.text);
    }
}

TEST(Latent, ThePlanSaysWhatGenerationKeepsOfAToken) {
  const Problem problem = problems()[0];
  Layout layout;
  layout.cp = 2;
  const config::ConfigTree tree = config::ConfigTree::from_json(layout_config(problem, layout));
  const std::string text = train::plan_report(tree, false);
  EXPECT_NE(
      text.find("64 bytes of a token and layer in generation: a compressed row of 12 features, and the 4"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("a ring carries 16 compressed features of a row; its 68 of keys"), std::string::npos)
      << text;
  const auto plan_of = [&](const Problem& p) {
    return train::plan_report(config::ConfigTree::from_json(layout_config(p, layout)), false);
  };
  EXPECT_NE(plan_of(problems()[2]).find("keys and values of a row, 56 features"), std::string::npos);
  layout.cp_mode = "ulysses";
  EXPECT_NE(plan_of(problem).find("keys and values of a row, 68 features"), std::string::npos);
  LayoutRun run(problem, layout);
  const plan::Plan& plan = run.trainer().ranks().first().plans().generate;
  int64_t caches = 0;
  for (const plan::Slot& slot : plan.slots)
    if (slot.name.starts_with("kv")) {
      EXPECT_EQ(slot.bytes, problem.sequence * (12 + 4) * 4);
      ++caches;
    }
  EXPECT_EQ(caches, problem.layers);
}

/// The bytes that a step sends are those of the plan, and its closed forms are right.
TEST(Latent, SendsWhatThePlanSays) {
  for (const Problem& problem : problems())
    for (const auto& [tp, cp, mode] : {std::tuple<int64_t, int64_t, const char*>{2, 1, "ring"},
                                       {1, 2, "ring"},
                                       {1, 2, "gather"},
                                       {1, 2, "ulysses"},
                                       {2, 2, "ring"}}) {
      Layout layout;
      layout.tp = tp, layout.cp = cp, layout.cp_mode = mode, layout.dp_shard = 2, layout.accumulation = 2;
      LayoutRun run(problem, layout);
      run.step();
      int64_t planned = 0;
      for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
        planned += n.sent_bytes;
      EXPECT_EQ(run.trainer().metrics().last_sent_bytes(), planned) << layout.name();
      const Json report = Json::parse(
          train::plan_report(config::ConfigTree::from_json(layout_config(problem, layout)), true));
      for (const Json& row : report.at("traffic"))
        EXPECT_TRUE(row.at("closed_form").is_string()) << layout.name() << ": " << row;
      EXPECT_EQ(wrong_formulas(layout_config(problem, layout)), "") << layout.name();
      run.trainer().ranks().on_each([&](train::Rank& rank, int32_t) {
        EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().train.peak_bytes);
      });
    }
}

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Returns the bytes that attention saves, by the closed form of nn/latent_attention.h; `m` is one
/// tensor-parallel rank's model, `rows` its rows.
int64_t saved_by_attention(const nn::ModelConfig& m, int64_t rows, const Layout& l, int64_t e) {
  const nn::LatentConfig& a = m.latent;
  int64_t bytes = aligned(e * rows * m.heads * a.value_dim) + aligned(4 * rows * m.heads);
  bytes +=
      aligned(e * rows * (a.q_rank + a.kv_rank + a.rope_dim)) + aligned(4 * rows) * (a.q_rank > 0 ? 2 : 1);
  if (l.cp > 1 && l.cp_mode == "ulysses")
    return bytes + aligned(e * rows * m.heads * (2 * m.head_dim + 2 * a.value_dim));
  return bytes + aligned(e * rows * m.heads * m.head_dim) +
         aligned(e * rows * m.heads * (m.head_dim + a.value_dim));
}

TEST(Latent, SavedBytesFollowTheClosedForm) {
  const Problem problem = problems()[0];
  for (const auto& [tp, sp, cp, mode] : {std::tuple<int64_t, bool, int64_t, const char*>{1, false, 1, "ring"},
                                         {2, false, 1, "ring"},
                                         {4, true, 1, "ring"},
                                         {1, false, 2, "ring"},
                                         {1, false, 2, "ulysses"},
                                         {2, true, 2, "ulysses"}}) {
    Layout layout;
    layout.tp = tp, layout.sequence_parallel = sp, layout.cp = cp, layout.cp_mode = mode;
    const config::ResolvedConfig config =
        train::assemble(config::ConfigTree::from_json(layout_config(problem, layout))).config;
    const nn::Model model(config.model, config.init.scale_residual, {}, tp);
    const nn::ModelConfig& m = model.local();
    const int64_t seq = nn::LocalColumns{cp, 0}.count(13), rows = 3 * seq,
                  own = sp ? (rows + tp - 1) / tp : rows;
    for (const DType type : {DType::kF32, DType::kBf16}) {
      parallel::CountingWire wire(tp), column_wire(cp);
      const auto exchange = parallel::make_exchange(sp, 1, &wire);
      const auto columns = parallel::make_column_exchange(config.mesh.cp_mode, &column_wire);
      const nn::ModelCosts costs = nn::measure_costs(model, *kernel_tables().back(), 1, type, 3, seq, true,
                                                     false, *exchange, *columns);
      const int64_t others = 4 * aligned(4 * own) + 3 * aligned(4 * own * m.width) +
                             aligned(dtype_bytes(type) * rows * m.mlp_width * 2);
      for (const nn::CallCost& cost : costs.block_forward)
        EXPECT_EQ(cost.saved, others + saved_by_attention(m, rows, layout, dtype_bytes(type)))
            << layout.name();
    }
  }
}

/// The proof compares the plan with a serial replay of all ranks, and with the bound for any order of sums.
TEST(Latent, IsProved) {
  for (const Problem& problem : problems()) {
    Layout layout;
    layout.tp = 2, layout.dp_shard = 2, layout.stage = 3, layout.accumulation = 2;
    const Json proof =
        Json::parse(train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 3));
    EXPECT_TRUE(proof.at("equal").get<bool>()) << layout.name() << ": " << proof.at("first_difference");
  }
}

}  // namespace latent_test
}  // namespace hawser::testing
