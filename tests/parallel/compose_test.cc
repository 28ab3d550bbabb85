// The strategies of a config: what they make of a step, and the groups that a rank makes for them.
#include "engine/parallel/compose.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/config/config_tree.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace {

config::ResolvedConfig config_of(const Layout& layout, const Problem& problem = {}) {
  return train::assemble(config::ConfigTree::from_json(layout_config(problem, layout))).config;
}

/// The names of the groups of rank 0.
std::set<std::string> groups_of(const config::ResolvedConfig& config, bool peers) {
  const nn::Model model = train::model_of(config);
  const parallel::Strategies strategies = train::strategies_of(config);
  const parallel::ShardLayout layout(
      model.table(), train::layout_options(config, strategies, strategies.form().data, 0, false));
  parallel::DataParallelGroups groups;
  std::set<std::string> names;
  for (const parallel::GroupWish& wish : strategies.groups({layout, 0, true, peers}, &groups)) {
    EXPECT_EQ(wish.request.members.front(), 0);
    names.insert(wish.request.name);
  }
  return names;
}

TEST(Compose, OneRankNeedsNothing) {
  const config::ResolvedConfig config = config_of({});
  const parallel::Strategies strategies = train::strategies_of(config);
  const parallel::StepForm& form = strategies.form();
  EXPECT_FALSE(form.shares_rows || form.shares_blocks || form.overlaps_instructions || form.data.many());
  EXPECT_FALSE(form.backward.halves || form.backward.remakes.any());
  EXPECT_EQ(form.eval_micro_batches, 1);
  EXPECT_EQ(strategies.words(), "");
  EXPECT_EQ(groups_of(config, true), std::set<std::string>{});
  const parallel::BlockExchanges none = strategies.exchanges([](mesh::Axis) { return nullptr; });
  EXPECT_EQ(&none.exchange(), &nn::kAlone);
  EXPECT_EQ(&none.columns(), &nn::kAllColumns);
  EXPECT_EQ(&none.experts(), &nn::kAllExperts);
}

TEST(Compose, EveryStrategyShapesTheStep) {
  Problem problem;
  problem.experts = R"({"experts": 4, "top_k": 2})";
  Layout layout;
  layout.pp = 2, layout.cp = 2, layout.tp = 2, layout.ep = 2, layout.dp_shard = 2, layout.stage = 1;
  layout.accumulation = 4, layout.schedule = "dualpipev", layout.chunks = 2;
  layout.recompute = R"({"policy": "full"})", layout.offload = R"({"activations": "disk", "folder": "/tmp"})";
  problem.layers = 4;
  const config::ResolvedConfig config = config_of(layout, problem);
  const parallel::Strategies strategies = train::strategies_of(config);
  const parallel::StepForm& form = strategies.form();
  EXPECT_TRUE(form.shares_rows && form.shares_blocks && form.overlaps_instructions && form.data.many());
  EXPECT_TRUE(form.backward.halves && form.backward.remakes.rest);
  EXPECT_EQ(form.columns.ranks, 2);
  EXPECT_EQ(form.eval_micro_batches, 2);
  EXPECT_EQ(strategies.words(),
            ". 2 stages of a pipeline (dualpipev) divide the layers"
            ". 2 context-parallel ranks divide the columns of each row (ring)"
            ". 2 tensor-parallel ranks compute each block together and divide the rows between (sequence "
            "parallelism). 2 of them divide the experts of each layer");
  for (const char* name : {"dp_shard", "tp", "cp", "ep", "edp", "tp_sums"})
    EXPECT_TRUE(groups_of(config, false).contains(name)) << name;
  EXPECT_FALSE(groups_of(config, false).contains("cp (hosts)"));
  EXPECT_TRUE(groups_of(config, true).contains("cp (hosts)"));
}

/// Ranks with equal calls are those of a stage, or where ranks divide experts, of a group of these.
TEST(Compose, RanksOfAStageMakeEqualCallsUnlessTheyDivideExperts) {
  Layout layout;
  layout.pp = 2, layout.dp_shard = 2, layout.accumulation = 2;
  const config::ResolvedConfig stages = config_of(layout);
  const parallel::Strategies of_stages = train::strategies_of(stages);
  EXPECT_EQ(of_stages.kind_of_calls(0), of_stages.kind_of_calls(1));
  EXPECT_NE(of_stages.kind_of_calls(0), of_stages.kind_of_calls(2));
  Problem problem;
  problem.experts = R"({"experts": 4, "top_k": 2})";
  layout.pp = 1, layout.dp_shard = 4, layout.ep = 2, layout.accumulation = 1;
  const config::ResolvedConfig experts = config_of(layout, problem);
  const parallel::Strategies of_experts = train::strategies_of(experts);
  EXPECT_EQ(of_experts.kind_of_calls(0), of_experts.kind_of_calls(1));
  EXPECT_NE(of_experts.kind_of_calls(0), of_experts.kind_of_calls(2));
}

}  // namespace
}  // namespace hawser::testing
