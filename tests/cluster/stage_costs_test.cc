// Tests the costs of a stage: what kernels take in all, what transfers take by their routes, and that what is
// sent by group is the plan's.
#include "engine/cluster/stage_costs.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/base/error.h"
#include "engine/cluster/kernel_seconds.h"
#include "engine/plan/step_work.h"
#include "tests/cluster/planned_stages.h"

namespace hawser::testing {
namespace stage_costs_test {

using cluster::Cluster;
using parallel::TransferGroup;

double computed(const plan::CostTable& costs) {
  return std::accumulate(costs.seconds.begin(), costs.seconds.end(), 0.0);
}

/// The work of a stage as the report lists it, by class; costs are by instruction.
double by_class(const Cluster& c, const plan::Plan& plan) {
  double seconds = 0;
  for (const KernelCalls& calls : plan::step_work(plan)) seconds += seconds_of(c.device, calls, false);
  return seconds;
}

TEST(StageCosts, CountEveryKernelOnce) {
  Layout l;
  l.pp = 2, l.accumulation = 3, l.dp_shard = 2, l.stage = 1;
  for (const char* const recompute : {"", R"({"policy": "full"})"}) {
    l.recompute = recompute;
    const PlannedStages planned(Problem(), l);
    double all = 0;
    for (const cluster::StageProblem& stage : planned.problems()) {
      const Cluster c = plain_cluster();
      const double expected = by_class(c, *stage.plan);
      EXPECT_NEAR(computed(stage_costs(c, stage)), expected, 1e-9 * expected);
      all += expected;
    }
    EXPECT_GT(all, 0);
  }
}

TEST(StageCosts, LaunchesBoundKernelsOutsideGraphs) {
  const PlannedStages planned{Problem(), Layout()};
  Cluster c = plain_cluster();
  const cluster::StageProblem stage = planned.problems().front();
  double calls = 0;
  for (const KernelCalls& work : plan::step_work(*stage.plan)) calls += static_cast<double>(work.calls);
  c.device.launch_seconds = 1;  // longer than any kernel
  ASSERT_NE(stage.plan->no_graphs, plan::NoGraphs::kNone);
  EXPECT_NEAR(computed(stage_costs(c, stage)), calls, 1e-6 * calls);
  plan::Plan captured = *stage.plan;
  captured.no_graphs = plan::NoGraphs::kNone;
  const double in_graphs = computed(stage_costs(c, {&captured, stage.layout, stage.strategy}));
  EXPECT_NEAR(in_graphs, static_cast<double>(captured.segments.size()) + by_class(c, captured),
              1e-6 * in_graphs);
}

/// The rate of one collective between dp ranks that lie `tp` apart.
cluster::TransferRate rate(const Cluster& c, const PlannedStages& planned, int64_t sum_group) {
  cluster::NetworkCosts network(c, planned.layouts.front());
  return network.rate({TransferGroup::kShard, comm::Operation::kReduceScatter, 1, sum_group});
}

TEST(StageCosts, TransfersTakeTheSlowestLevelOfEachHop) {
  Layout l;
  l.dp_shard = 4;
  const PlannedStages planned(Problem(), l);
  Cluster c = plain_cluster(2);
  c.levels[0].latency = 1, c.levels[1].latency = 10;
  // All at once: of 3 parts 1 stays in the node and 2 leave it, at a tenth of the rate.
  cluster::TransferRate all = rate(c, planned, 0);
  EXPECT_DOUBLE_EQ(all.seconds_per_byte, 2.0 / 3 / 1e8);
  EXPECT_DOUBLE_EQ(all.latency, 10);
  // Two hops: 2 parts to the mate in the node, then 1 to the other node.
  cluster::TransferRate hops = rate(c, planned, 2);
  EXPECT_DOUBLE_EQ(hops.seconds_per_byte, 2.0 / 3 / 1e9 + 1.0 / 3 / 1e8);
  EXPECT_DOUBLE_EQ(hops.latency, 11);
  c.levels[1].efficiency["reduce_scatter"] = 0.5;
  EXPECT_DOUBLE_EQ(rate(c, planned, 0).seconds_per_byte, 2.0 / 3 / 5e7);
}

TEST(StageCosts, RanksBesideEachOtherLieWithinTheNode) {
  Layout l;
  l.dp_shard = 2, l.tp = 2;
  const PlannedStages planned(Problem(), l);
  EXPECT_DOUBLE_EQ(rate(plain_cluster(2), planned, 0).seconds_per_byte, 1e-8);  // ranks 0 and 2
  EXPECT_DOUBLE_EQ(rate(plain_cluster(4), planned, 0).seconds_per_byte, 1e-9);
}

TEST(StageCosts, EachTransferPaysItsLatency) {
  Layout l;
  l.dp_shard = 2, l.pp = 2, l.accumulation = 2, l.stage = 1;
  const PlannedStages planned(Problem(), l);
  Cluster c = plain_cluster(4);
  for (const cluster::StageProblem& stage : planned.problems()) {
    const plan::CostTable without = stage_costs(c, stage);
    c.levels[0].latency = 5;
    const plan::CostTable with = stage_costs(c, stage);
    c.levels[0].latency = 0;
    int64_t transfers = 0;
    for (size_t i = 0; i < with.transfer_seconds.size(); ++i) {
      const parallel::Sent sent = sent_by(*stage.plan, stage.plan->instructions[i], *stage.strategy);
      const bool two_hops = sent.operation == comm::Operation::kAllReduceI64;  // addends, then their sums
      const double latency = sent.bytes == 0 ? 0 : two_hops ? 10 : 5;
      transfers += sent.bytes > 0;
      EXPECT_NEAR(with.transfer_seconds[i] - without.transfer_seconds[i], latency, 1e-9) << i;
    }
    EXPECT_GT(transfers, 6);
  }
}

TEST(StageCosts, ExchangesTakeTheRouteOfTheirGroup) {
  Layout l;
  l.tp = 2, l.dp_shard = 2;
  const PlannedStages planned(Problem(), l);
  const plan::CostTable costs = stage_costs(plain_cluster(1), planned.problems().front());
  const plan::CostTable near = stage_costs(plain_cluster(2), planned.problems().front());
  int64_t exchanges = 0;
  for (const plan::Instruction& n : planned.stages.front().train.instructions)
    for (const ExchangeNote& note : n.exchanges) {
      ++exchanges;
      EXPECT_DOUBLE_EQ(costs.exchange_seconds(note), static_cast<double>(note.bytes) / 1e8);
      EXPECT_DOUBLE_EQ(near.exchange_seconds(note), static_cast<double>(note.bytes) / 1e9);
    }
  EXPECT_GT(exchanges, 0);
}

TEST(StageCosts, RowsSumToWhatThePlanSends) {
  Layout l;
  l.dp_shard = 2, l.dp_replicate = 2, l.tp = 2, l.pp = 2, l.accumulation = 2, l.stage = 3;
  const PlannedStages planned(Problem(), l);
  for (const cluster::StageProblem& stage : planned.problems()) {
    int64_t rows = 0, sent = 0;
    for (const cluster::SentRow& row : sent_rows(plain_cluster(2), stage))
      rows += std::accumulate(row.bytes.begin(), row.bytes.end(), int64_t{0});
    for (const plan::Instruction& n : stage.plan->instructions) sent += n.sent_bytes;
    EXPECT_EQ(rows, sent);
  }
}

TEST(StageCosts, CopiesNeedTheirRates) {
  Layout l;
  l.offload = R"({"activations": "disk", "folder": "/tmp"})";
  const PlannedStages planned(Problem(), l);
  Cluster c = plain_cluster();
  const cluster::StageProblem stage = planned.problems().front();
  const plan::CostTable costs = stage_costs(c, stage);
  double copied = 0;
  for (size_t i = 0; i < costs.transfer_seconds.size(); ++i) {
    const plan::Instruction& n = stage.plan->instructions[i];
    if (!plan::is_move(n.op)) continue;
    copied += 1;
    EXPECT_DOUBLE_EQ(costs.transfer_seconds[i], static_cast<double>(moved_bytes(*stage.plan, n)) / 1e9);
  }
  EXPECT_GT(copied, 0);
  c.host.disk_write = 0;
  try {
    stage_costs(c, stage);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("/disk/write_bytes_per_second"), std::string::npos);
  }
}

}  // namespace stage_costs_test
}  // namespace hawser::testing
