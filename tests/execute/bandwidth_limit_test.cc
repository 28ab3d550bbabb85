// Tests of /comm/bandwidth_limit: every call between ranks is charged with exactly the bytes that the ledger
// counts for its group, whether it moves gradients, crosses a stage or runs inside a block. No test measures
// time.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "engine/execute/step_traffic.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace bandwidth_limit_test {

using Json = nlohmann::json;

/// The bytes of all ranks by group. A message is counted where it is sent and charged where it is received,
/// so the two are compared as sums over ranks.
struct Bytes {
  int64_t sent = 0, charged = 0;
};

std::map<std::string, Bytes> bytes_of_step(const Problem& p, const Layout& l, double limit) {
  Json config = Json::parse(layout_config(p, l));
  config["comm"]["bandwidth_limit"] = limit;
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(config::ConfigTree::from_json(config.dump()), false, &cancel,
                                              comm::make_local(static_cast<int32_t>(l.world())));
  const Rows rows = rows_of(p, p.micro_batch * l.accumulation * l.dp(), 0);
  trainer->push(rows.view());
  trainer->train_step();
  std::map<std::string, Bytes> groups;
  for (int32_t r = 0; r < l.world(); ++r) {
    const parallel::DataParallelGroups& of_rank = trainer->ranks().at(r).groups();
    const comm::Traffic::Entry all = train::sum(train::StepTraffic(of_rank).total());
    groups["all"].sent += all.bytes, groups["all"].charged += all.charged_bytes;
    const auto add = [&](const char* name, const std::unique_ptr<comm::ProcessGroup>& group) {
      if (group == nullptr) return;
      const comm::Traffic of_group = group->traffic();
      for (const comm::Traffic::Entry& entry : of_group.by_operation)
        groups[name].sent += entry.bytes, groups[name].charged += entry.charged_bytes;
    };
    add("shard", of_rank.shard), add("tp", of_rank.tp), add("cp", of_rank.cp), add("ep", of_rank.ep);
    add("kv_sums", of_rank.kv_sums), add("edp", of_rank.edp);
    for (const auto& stage : of_rank.stages) add("stage", stage);
  }
  return groups;
}

/// Expects that a step charges the groups named, and each with what it sends.
void expect_charged(const Problem& p, const Layout& l, const std::vector<std::string>& named) {
  SCOPED_TRACE(l.name());
  const auto limited = bytes_of_step(p, l, 1e12), free = bytes_of_step(p, l, 0);
  for (const std::string& name : named) {
    ASSERT_TRUE(limited.contains(name)) << name;
    EXPECT_GT(limited.at(name).sent, 0) << name;
  }
  for (const auto& [name, bytes] : limited) {
    EXPECT_EQ(bytes.charged, bytes.sent) << name;
    EXPECT_EQ(free.at(name).sent, bytes.sent) << name;
    EXPECT_EQ(free.at(name).charged, 0) << name;
  }
}

/// Returns a layout of `world` ranks along one axis, and one data-parallel axis of `dp_shard` ranks.
Layout layout_of(int64_t Layout::*axis, int64_t ranks, int64_t dp_shard = 1) {
  Layout l;
  l.dp_shard = dp_shard;
  l.*axis = ranks;
  return l;
}

TEST(BandwidthLimit, ChargesTransfersAndStages) {
  Layout l = layout_of(&Layout::pp, 2, 2);
  l.stage = 2, l.accumulation = 2;
  expect_charged({}, l, {"shard", "stage"});
}

TEST(BandwidthLimit, ChargesExchangesOfTensorParallelRanks) {
  expect_charged({}, layout_of(&Layout::tp, 2, 2), {"tp", "shard"});
  expect_charged({}, layout_of(&Layout::tp, 4), {"tp", "kv_sums"});
  Layout l = layout_of(&Layout::tp, 2);
  l.sequence_parallel = false;
  expect_charged({}, l, {"tp"});
  l.tp_chunks = 3;
  expect_charged({}, l, {"tp"});
}

TEST(BandwidthLimit, ChargesExchangesOfContextParallelRanks) {
  Problem p;
  p.like_gpt2 = false;
  Layout l = layout_of(&Layout::cp, 2);
  for (const char* mode : {"ring", "ulysses", "gather"}) {
    l.cp_mode = mode;
    expect_charged(p, l, {"cp"});
  }
}

TEST(BandwidthLimit, ChargesExchangesWithExperts) {
  Problem p;
  p.experts = R"({"experts": 4, "top_k": 2, "width": 16})";
  expect_charged(p, layout_of(&Layout::ep, 2, 4), {"ep", "edp"});
}

}  // namespace bandwidth_limit_test
}  // namespace hawser::testing
