// Tests that a forecast ascribes all time, has the bubbles of the schedules' papers with unit costs, and
// never takes longer on faster devices or networks.
#include "engine/cluster/foretell.h"

#include <gtest/gtest.h>

#include "engine/parallel/pipeline/schedule.h"
#include "tests/cluster/planned_stages.h"
#include "tests/parallel/pipeline/stage_plans.h"

namespace hawser::testing {
namespace foretell_test {

using cluster::Cluster;
using cluster::ForetoldStep;
using cluster::StageTimes;
using parallel::PipelineSchedule;
using parallel::TransferGroup;

double all_of(const StageTimes& t) { return t.computing + t.exposed_in_all() + t.copies + t.bubble; }

ForetoldStep with_unit_costs(const parallel::pipeline::Shape& shape) {
  const std::vector<plan::Plan> plans = stage_plans(shape);
  std::vector<cluster::StageProblem> stages;
  std::vector<plan::CostTable> costs;
  for (const plan::Plan& plan : plans) {
    stages.push_back({&plan, nullptr, nullptr});
    costs.push_back(costs_of(plan, PartCosts()));
  }
  return foretell(stages, costs);
}

TEST(Foretell, BubblesWithUnitCostsAreThoseOfThePapers) {
  for (const int64_t p : {1, 2, 4, 7})
    for (const int64_t m : {p, 2 * p + 1, 5 * p}) {
      for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B}) {
        const ForetoldStep step = with_unit_costs({schedule, p, m});
        EXPECT_EQ(step.seconds, 3 * (m + p - 1));
        for (const StageTimes& t : step.stages) {
          EXPECT_EQ(t.bubble, 3 * (p - 1));
          EXPECT_EQ(t.computing, 3 * m);
          EXPECT_EQ(t.exposed_in_all(), 0);
        }
      }
      const ForetoldStep zero = with_unit_costs({PipelineSchedule::kZbH1, p, m});
      EXPECT_EQ(zero.seconds, 3 * m + p - 1);
      EXPECT_DOUBLE_EQ(zero.mean().bubble, static_cast<double>(p - 1));
    }
}

/// Layouts with every kind of transfer.
std::vector<Layout> layouts() {
  std::vector<Layout> all(7);
  all[0].dp_shard = 4, all[0].stage = 3, all[0].accumulation = 2;
  all[1].dp_shard = 2, all[1].dp_replicate = 2, all[1].stage = 2;
  all[2].pp = 2, all[2].dp_shard = 2, all[2].stage = 1, all[2].accumulation = 4;
  all[3].tp = 2, all[3].cp = 2, all[3].accumulation = 2;
  all[4].offload = R"({"activations": "disk", "folder": "/tmp"})", all[4].dp_shard = 2;
  all[5].pp = 2, all[5].accumulation = 4, all[5].schedule = "zb_h1", all[5].tp = 2;
  all[6].dp_shard = 4, all[6].stage = 1, all[6].sum_group = 2;
  return all;
}

Cluster slow_cluster() {
  Cluster c = plain_cluster(2);
  c.levels[0].bytes_per_second = 1e7, c.levels[1].bytes_per_second = 1e6;
  c.levels[0].latency = 1e-4, c.levels[1].latency = 1e-3;
  c.host.disk_read = c.host.disk_write = 1e7;
  return c;
}

TEST(Foretell, AscribesEverySecondOfEveryStage) {
  for (const Layout& l : layouts()) {
    const PlannedStages planned(Problem(), l);
    const ForetoldStep step = foretell(slow_cluster(), planned.problems());
    for (const StageTimes& t : step.stages)
      EXPECT_NEAR(all_of(t), step.seconds, 1e-9 * step.seconds) << l.name();
    EXPECT_GT(step.mean().exposed_in_all() + step.mean().copies, 0) << l.name();
  }
}

TEST(Foretell, AscribesWaitsToTheirGroup) {
  const auto exposed = [](const Layout& l, TransferGroup group) {
    const PlannedStages planned(Problem(), l);
    return foretell(slow_cluster(), planned.problems()).mean().exposed[static_cast<size_t>(group)];
  };
  const std::vector<Layout> all = layouts();
  EXPECT_GT(exposed(all[0], TransferGroup::kShard), 0);
  EXPECT_EQ(exposed(all[0], TransferGroup::kReplica), 0);
  EXPECT_GT(exposed(all[1], TransferGroup::kReplica), 0);
  EXPECT_GT(exposed(all[2], TransferGroup::kStage), 0);
  EXPECT_GT(exposed(all[3], TransferGroup::kTp), 0);
  EXPECT_GT(exposed(all[3], TransferGroup::kCp), 0);
  EXPECT_EQ(exposed(all[3], TransferGroup::kStage), 0);
  EXPECT_GT(exposed(all[5], TransferGroup::kTp), 0);
  const PlannedStages offloads(Problem(), all[4]);
  EXPECT_GT(foretell(slow_cluster(), offloads.problems()).mean().copies, 0);
}

TEST(Foretell, WorldsOfOneRankOnlyCompute) {
  const PlannedStages planned{Problem(), Layout()};
  const ForetoldStep step = foretell(slow_cluster(), planned.problems());
  EXPECT_EQ(step.stages.size(), 1u);
  EXPECT_NEAR(step.stages.front().computing, step.seconds, 1e-12);
  EXPECT_GT(step.seconds, 0);
}

/// Each change makes something faster.
std::vector<Cluster> faster(const Cluster& c) {
  std::vector<Cluster> all(10, c);
  all[0].device.peak_flops[DType::kF32] *= 2;
  all[1].device.bytes_per_second *= 2;
  all[2].device.attention_forward[0].flops_per_second *= 2;
  all[3].levels[0].bytes_per_second *= 3;
  all[4].levels[1].bytes_per_second *= 3;
  all[5].levels[0].latency /= 2, all[6].levels[1].latency /= 2;
  all[7].host.disk_read *= 2, all[7].host.disk_write *= 1.5;
  all[8].device.kernels["adamw"] = 1e10;
  all[9].levels[0].bytes_per_second *= 1e3, all[9].levels[1].bytes_per_second *= 1e4;
  return all;
}

TEST(Foretell, NothingFasterCostsTime) {
  for (const Layout& l : layouts()) {
    const PlannedStages planned(Problem(), l);
    const double before = foretell(slow_cluster(), planned.problems()).seconds;
    double best = before;
    for (const Cluster& c : faster(slow_cluster())) {
      const double after = foretell(c, planned.problems()).seconds;
      EXPECT_LE(after, before * (1 + 1e-12)) << l.name();
      best = std::min(best, after);
    }
    EXPECT_LT(best, before) << l.name();
  }
}

}  // namespace foretell_test
}  // namespace hawser::testing
