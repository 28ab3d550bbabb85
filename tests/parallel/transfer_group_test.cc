// Tests that the bytes of a plan by group are what real ranks send in these groups: their ledgers count by
// process group.
#include "engine/parallel/transfer_group.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace transfer_group_test {

using Json = nlohmann::json;
using parallel::Sent;
using parallel::TransferGroup;
/// Bytes by group and operation.
using Bytes = std::map<std::string, int64_t>;

/// The group of a forecast for a process group's name.
std::string group_of(const std::string& name) {
  if (name == "gradients" || name == "dp_shard") return "shard";
  if (name == "dp_replicate") return "replica";
  if (name == "edp_replicate") return "edp_replica";
  if (name == "dp") return "world";
  if (name.starts_with("x_") || name.starts_with("dx_") || name.starts_with("table")) return "stage";
  return name;
}

Bytes ledger(const Json& communication) {
  Bytes bytes;
  for (const auto& [group, operations] : communication.items())
    for (const auto& [operation, entry] : operations.items())
      if (const int64_t sent = entry.at("bytes"); sent > 0) bytes[group_of(group) + " " + operation] += sent;
  return bytes;
}

Bytes planned(const plan::Plan& plan, const parallel::DataParallelStrategy& strategy) {
  Bytes bytes;
  const auto add = [&](const Sent& sent) {
    if (sent.bytes > 0)
      bytes[std::string(transfer_group_name(sent.group)) + " " + operation_name(sent.operation)] +=
          sent.bytes;
  };
  for (const plan::Instruction& n : plan.instructions) {
    if (plan::is_own(n.lane)) continue;
    add(sent_by(plan, n, strategy));
    for (const ExchangeNote& note : n.exchanges) add(parallel::sent_in(note));
  }
  return bytes;
}

/// Returns the planned bytes, which are the ledger's.
Bytes expect_exact(const Problem& p, const Layout& l) {
  SCOPED_TRACE(l.name());
  LayoutRun run(p, l);
  run.step();
  const train::EnginePlans& plans = run.trainer().ranks().first().plans();
  const Bytes bytes = planned(plans.train, plans.strategy);
  EXPECT_EQ(bytes, ledger(Json::parse(run.trainer().metrics().json()).at("communication")));
  return bytes;
}

TEST(TransferGroups, OfDataParallelRanksAreThoseOfTheLedger) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    Layout l;
    l.dp_shard = 4, l.stage = stage, l.accumulation = 2, l.sum_group = 2;
    EXPECT_EQ(expect_exact(Problem(), l).count("shard reduce_scatter"), 1u);
    l.dp_shard = 2, l.dp_replicate = 2, l.sum_group = 0;
    EXPECT_EQ(expect_exact(Problem(), l).count("replica all_reduce"), stage == 0 ? 0u : 1u);
  }
  Layout l;
  l.dp_shard = 4, l.stage = 3, l.reshard = "group", l.reshard_group = 2;
  EXPECT_EQ(expect_exact(Problem(), l).count("secondary all_gather"), 1u);
}

TEST(TransferGroups, OfModelAxesAreThoseOfTheLedger) {
  Layout l;
  l.tp = 4;
  Problem shared;  // key/value heads on two ranks each
  shared.like_gpt2 = false;
  EXPECT_EQ(expect_exact(shared, l).count("kv_sums all_reduce"), 1u);
  EXPECT_EQ(expect_exact(Problem(), l).count("tp_sums all_reduce"), 1u);
  l.tp = 2, l.dp_shard = 2, l.stage = 2;
  EXPECT_EQ(expect_exact(Problem(), l).count("shard reduce_scatter"), 1u);
  for (const char* const mode : {"ring", "ulysses", "gather"}) {
    Layout c;
    c.cp = 2, c.dp_shard = 2, c.cp_mode = mode, c.stage = 1;
    expect_exact(Problem(), c);
  }
}

TEST(TransferGroups, OfStagesAreThoseOfTheLedger) {
  for (const char* const schedule : {"1f1b", "zb_h1"}) {
    Layout l;
    l.pp = 2, l.dp_shard = 2, l.accumulation = 3, l.stage = 1, l.schedule = schedule;
    EXPECT_EQ(expect_exact(Problem(), l).count("stage send"), 1u);
  }
}

TEST(TransferGroups, OfExpertsAreNamed) {
  Problem p;
  p.experts = R"({"experts": 4, "top_k": 2, "width": 16})";
  Layout l;
  l.dp_shard = 4, l.ep = 2, l.stage = 1;
  const train::Assembly a = train::assemble(config::ConfigTree::from_json(layout_config(p, l)));
  LayoutRun run(p, l);
  const train::EnginePlans& plans = run.trainer().ranks().first().plans();
  const Bytes bytes = planned(plans.train, plans.strategy);
  for (const char* const row :
       {"edp reduce_scatter", "edp all_gather", "ep all_to_all", "shard reduce_scatter"})
    EXPECT_EQ(bytes.count(row), 1u) << row;
}

/// The members of groups follow from the mesh.
TEST(TransferGroups, HaveTheMembersOfTheMesh) {
  using enum TransferGroup;
  Layout l;
  l.pp = 2, l.dp_replicate = 2, l.dp_shard = 2, l.tp = 2, l.stage = 1, l.accumulation = 2;
  LayoutRun run(Problem(), l);
  const parallel::ShardLayout& layout = run.trainer().ranks().first().layout();
  using Ranks = std::vector<int64_t>;
  const auto members = [&](TransferGroup group, plan::Lane lane = plan::Lane::kCompute) {
    return members_of(group, layout, lane);
  };
  EXPECT_EQ(members(kTp), (Ranks{0, 1}));
  EXPECT_EQ(members(kShard), (Ranks{0, 2}));
  EXPECT_EQ(members(kReplica), (Ranks{0, 4}));
  EXPECT_EQ(members(kStage, plan::Lane::kXToNext), (Ranks{0, 8}));
  EXPECT_EQ(members(kWorld).size(), 16u);
  EXPECT_EQ(members(kCp), (Ranks{0}));
}

}  // namespace transfer_group_test
}  // namespace hawser::testing
