// Tests Muon with tensor-parallel ranks, which divide the rows or columns of matrices. From equal gradients,
// every layout has the bits of one rank. At equal tp, every ZeRO stage has the bits of DDP, from its own
// gradients.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/config/config_tree.h"
#include "tests/harness/data_parallel_ranks.h"
#include "tests/harness/layout_run.h"

namespace hawser {
namespace muon_layouts_test {

using testing::data_parallel_ranks;
using testing::Layout;
using testing::Problem;

constexpr const char* kLatent = R"({"kv_rank": 12, "q_rank": 14, "rope_dim": 4, "value_dim": 7})";
constexpr const char* kExperts = R"({"experts": 4, "top_k": 2, "width": 12, "shared_width": 8})";

/// A gated model with 4 heads, 2 of keys and values, a head with odd rows, and vectors of other optimizers.
Problem problem_of(const std::string& precision) {
  Problem p;
  p.precision = precision, p.optimizer = "muon", p.like_gpt2 = false, p.weights_every = 0, p.tied = false;
  p.rules = R"([{"of": "head.weight", "kind": "muon"}, {"of": "blocks.1.mlp.down.weight", "kind": "lion"}])";
  return p;
}

Layout with_tp(int64_t tp, Layout layout = {}, int64_t cp = 1, int64_t ep = 1) {
  layout.tp = tp, layout.cp = cp, layout.ep = ep;
  return layout;
}

using Values = std::map<std::string, std::vector<float>>;

/// Trains with gradients that do not depend on the layout: between the phases of each step, random numbers
/// replace those of the batch. Returns the weights and what the optimizers keep.
std::vector<Values> trained(const Problem& problem, Layout layout) {
  layout.sum_group = 0;
  config::ConfigTree config = config::ConfigTree::from_json(testing::layout_config(problem, layout));
  config.set("/optimizer/clip_norm", "0");  // norms are those of the gradients of the batch
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(
      config, false, &cancel,
      layout.world() > 1 ? comm::make_local(static_cast<int32_t>(layout.world())) : nullptr);
  trainer->ranks().on_each([](train::Rank& rank, int32_t) { rank.executor().fill_new_slots(); });
  const std::vector<nn::Parameter>& table = trainer->ranks().table().all();
  std::vector<float> values;
  for (uint64_t step = 0; step < 3; ++step) {
    const testing::Rows rows = testing::rows_of(
        problem, problem.micro_batch * layout.accumulation * layout.dp(), static_cast<int64_t>(step));
    trainer->push(rows.view());
    trainer->forward_backward();
    for (size_t i = 0; i < table.size(); ++i) {
      if (!table[i].trainable) continue;
      values.resize(static_cast<size_t>(table[i].size));
      for (size_t e = 0; e < values.size(); ++e)
        values[e] = static_cast<float>(philox(step, i, e).v[0]) * 0x1p-32f - 0.5f;
      trainer->tensors().set(train::TensorKind::kGradient, table[i].name, values.data(), values.size() * 4);
    }
    trainer->commit();
  }
  std::vector<train::TensorKind> kinds = {train::TensorKind::kWeight};
  for (size_t i = 0; i < plan::kStateCount; ++i) kinds.push_back(train::kind_of_state(i));
  std::vector<Values> all;
  for (const train::TensorKind kind : kinds) {
    Values& of_kind = all.emplace_back();
    for (const nn::Parameter& p : table) {
      if (!trainer->tensors().keeps(kind, p)) continue;
      std::vector<float>& to = of_kind[p.name];
      to.resize(static_cast<size_t>(p.size));
      trainer->tensors().get(kind, p.name, to.data(), to.size() * 4);
    }
  }
  return all;
}

void expect_equal(const Problem& problem, const std::vector<Layout>& layouts) {
  const std::vector<Values> one = trained(problem, {});
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.name());
    const std::vector<Values> got = trained(problem, layout);
    for (size_t kind = 0; kind < one.size(); ++kind) {
      ASSERT_EQ(got[kind].size(), one[kind].size());
      for (const auto& [name, values] : one[kind]) EXPECT_TRUE(got[kind].at(name) == values) << name;
    }
  }
}

std::vector<Layout> dense_layouts() {
  Layout alone = with_tp(2), stages = with_tp(2, data_parallel_ranks(1, 2, 1));
  alone.sequence_parallel = false, stages.pp = 2;
  return {with_tp(2),
          alone,
          stages,
          with_tp(4),
          with_tp(2, data_parallel_ranks(2, 1, 0)),
          with_tp(2, data_parallel_ranks(1, 3, 1)),
          with_tp(2, data_parallel_ranks(1, 2, 2)),
          with_tp(4, data_parallel_ranks(1, 2, 3)),
          with_tp(2, data_parallel_ranks(2, 2, 1)),
          with_tp(2, data_parallel_ranks(2, 2, 3)),
          with_tp(2, {}, 2),
          with_tp(4, data_parallel_ranks(1, 2, 3), 2),
          data_parallel_ranks(4, 1, 0),
          data_parallel_ranks(1, 4, 3)};
}

TEST(MuonLayouts, FromEqualGradientsEveryLayoutHasTheBitsOfOneRank) {
  for (const char* precision : {"fp32", "bf16"})
    for (const bool by_head : {false, true}) {
      Problem problem = problem_of(precision);
      problem.muon_heads = by_head;
      expect_equal(problem, dense_layouts());
    }
}

TEST(MuonLayouts, SoDoLatentAttentionAndAdapters) {
  Problem problem = problem_of("bf16");
  problem.latent = kLatent;
  for (const bool by_head : {false, true}) {
    problem.muon_heads = by_head;
    expect_equal(problem, dense_layouts());
  }
  problem.latent = problem.rules = "", problem.muon_heads = false;
  problem.adapter = R"({"rank": 3, "dora": true})";
  expect_equal(problem, dense_layouts());
}

TEST(MuonLayouts, SoDoExperts) {
  Problem problem = problem_of("fp32");
  problem.experts = kExperts, problem.rules = "";
  expect_equal(problem,
               {with_tp(2), with_tp(2, data_parallel_ranks(1, 2, 0), 1, 2),
                with_tp(2, data_parallel_ranks(1, 2, 1), 1, 4), with_tp(2, data_parallel_ranks(1, 2, 3)),
                with_tp(2, data_parallel_ranks(2, 2, 2), 1, 2), data_parallel_ranks(1, 4, 3)});
}

/// Keys and values are shared by two ranks each if tp is 4.
TEST(MuonLayouts, AtEqualTpEveryStageGivesTheSameBits) {
  for (const int64_t tp : {2, 4})
    for (const char* precision : {"fp32", "fp16"}) {
      Problem problem = problem_of(precision);
      problem.muon_heads = tp == 4;
      const auto run = [&](const Layout& layout) {
        return testing::run_layout(problem, with_tp(tp, layout), 2);
      };
      const auto ddp = run(data_parallel_ranks(4, 1, 0));
      for (const Layout& layout : {data_parallel_ranks(1, 4, 1), data_parallel_ranks(2, 2, 2),
                                   data_parallel_ranks(2, 2, 1), data_parallel_ranks(1, 4, 3)})
        EXPECT_EQ(testing::first_difference(ddp, run(layout)), "") << tp << " " << layout.name();
    }
}

}  // namespace muon_layouts_test
}  // namespace hawser
