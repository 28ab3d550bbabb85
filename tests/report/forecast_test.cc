// Tests that a forecast is that of the plans that an engine would make, for every schedule, recomputation,
// ZeRO stages and offload; and that its memory and seconds follow from the number of micro-batches.
#include "engine/report/forecast.h"

#include <gtest/gtest.h>

#include "tests/cluster/planned_stages.h"

namespace hawser::testing {
namespace forecast_test {

using parallel::pipeline::RankChunks, parallel::pipeline::ScheduleRow;
using train::Forecast;

Problem problem(int64_t layers = 8) {
  Problem problem;
  problem.layers = layers;
  return problem;
}

config::ResolvedConfig with(Layout layout, int64_t micro_batches, int64_t layers = 8) {
  layout.accumulation = micro_batches;
  return config::resolve(config::ConfigTree::from_json(layout_config(problem(layers), layout)));
}

Layout pipeline_of(const ScheduleRow& row, int64_t stages) {
  Layout l;
  l.pp = stages, l.schedule = row.name;
  if (row.chunks == RankChunks::kConfigured) l.chunks = 2;
  return l;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const ScheduleRow& row : parallel::pipeline::kSchedules)
    for (const int64_t stages : {2, 3, 4}) {
      Layout l = pipeline_of(row, stages);
      all.push_back(l);
      l.dp_shard = 2, l.stage = 1;
      if (stages == 2) all.push_back(l);
      l.dp_shard = 1, l.stage = 0, l.tp = 2;
      if (stages == 2) all.push_back(l);
    }
  Layout one;
  for (const int64_t stage : {0, 1, 2, 3}) {
    one.dp_shard = 4, one.stage = stage, one.reduce = stage == 2 ? "per_micro_batch" : "per_step";
    all.push_back(one);
  }
  one = {};
  one.recompute = R"({"policy": "full"})", one.cp = 2;
  all.push_back(one);
  one = {};
  one.dp_shard = 2;
  one.offload = R"({"activations": "disk", "folder": "/tmp"})";
  all.push_back(one);
  return all;
}

TEST(Forecast, IsThatOfTheEnginesPlans) {
  for (Layout layout : layouts()) {
    layout.accumulation = 24;
    const config::ResolvedConfig config = with(layout, 24);
    const cluster::Cluster c = plain_cluster(2);
    const Forecast forecast(config, c);
    const PlannedStages planned(problem(), layout);
    const cluster::ForetoldStep step = cluster::foretell(c, planned.problems());
    EXPECT_EQ(forecast.step().seconds, step.seconds) << layout.name();
    ASSERT_EQ(forecast.stages().size(), planned.stages.size()) << layout.name();
    int64_t most = 0;
    for (size_t s = 0; s < planned.stages.size(); ++s) {
      EXPECT_EQ(forecast.stages()[s].device_bytes(), planned.stages[s].device_bytes()) << layout.name();
      EXPECT_EQ(forecast.step().stages[s].bubble, step.stages[s].bubble) << layout.name();
      most = std::max(most, planned.stages[s].device_bytes());
    }
    EXPECT_EQ(forecast.most_bytes(), most) << layout.name();
  }
}

/// Once the pipeline is full, every period of micro-batches takes as long as the one before.
TEST(Forecast, GrowsByTheSameAmountEveryPeriod) {
  for (const ScheduleRow& row : parallel::pipeline::kSchedules) {
    const int64_t stages = 4;
    const auto seconds = [&](int64_t micro_batches) {
      cluster::Cluster c = plain_cluster(2);
      for (cluster::NetworkLevel& level : c.levels) level.bytes_per_second = 1e300;
      return Forecast(with(pipeline_of(row, stages), micro_batches), c).step().seconds;
    };
    const double at_20 = seconds(20), at_24 = seconds(24), at_28 = seconds(28);
    EXPECT_GT(at_24, at_20) << row.name;
    EXPECT_NEAR(at_28 - at_24, at_24 - at_20, 1e-9 * at_28) << row.name;
  }
}

}  // namespace forecast_test
}  // namespace hawser::testing
