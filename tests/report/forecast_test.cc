// Tests that a forecast from few of a step's micro-batches is that of all: the same instructions, bytes and
// memory, and the same seconds, for every schedule and several numbers of micro-batches.
#include "engine/report/forecast.h"

#include <gtest/gtest.h>

#include "tests/cluster/planned_stages.h"

namespace hawser::testing {
namespace forecast_test {

using cluster::StageTimes;
using parallel::pipeline::RankChunks, parallel::pipeline::ScheduleRow;
using train::Forecast, train::Planned;

config::ResolvedConfig with(Layout layout, int64_t micro_batches) {
  Problem problem;
  problem.layers = 8;
  layout.accumulation = micro_batches;
  return config::resolve(config::ConfigTree::from_json(layout_config(problem, layout)));
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const ScheduleRow& row : parallel::pipeline::kSchedules)
    for (const int64_t stages : {2, 3, 4}) {
      Layout l;
      l.pp = stages, l.schedule = row.name;
      if (row.chunks == RankChunks::kConfigured) l.chunks = 2;
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
  one.offload = R"({"activations": "disk", "folder": "/tmp"})";
  all.push_back(one);
  return all;
}

void expect_near(const StageTimes& few, const StageTimes& all, double seconds, const std::string& name) {
  const double most = 1e-9 * seconds;
  EXPECT_NEAR(few.computing, all.computing, most) << name;
  EXPECT_NEAR(few.copies, all.copies, most) << name;
  EXPECT_NEAR(few.bubble, all.bubble, most) << name;
  for (size_t g = 0; g < few.exposed.size(); ++g)
    EXPECT_NEAR(few.exposed[g], all.exposed[g], most) << name << " group " << g;
}

void expect_equal(const Forecast& few, const Forecast& all, bool two_chunks_of_a_v, const std::string& name) {
  EXPECT_NEAR(few.step().seconds, all.step().seconds, 1e-9 * all.step().seconds) << name;
  ASSERT_EQ(few.stages().size(), all.stages().size());
  for (size_t s = 0; s < few.stages().size(); ++s) {
    const plan::Plan &one = few.stages()[s].train, &other = all.stages()[s].train;
    expect_near(few.step().stages[s], all.step().stages[s], all.step().seconds, name);
    if (!two_chunks_of_a_v) {
      EXPECT_EQ(few.stages()[s].device_bytes(), all.stages()[s].device_bytes()) << name << " stage " << s;
      EXPECT_EQ(one.peak_bytes, other.peak_bytes) << name << " stage " << s;
    }
    // The gaps between slots of the V schedules depend on the number of micro-batches.
    const auto peak = static_cast<double>(other.peak_bytes);
    EXPECT_NEAR(static_cast<double>(one.peak_bytes), peak, 0.05 * peak) << name << " stage " << s;
    EXPECT_EQ(one.at_peak, other.at_peak) << name << " stage " << s;
    EXPECT_EQ(one.outside, other.outside) << name << " stage " << s;
    EXPECT_EQ(one.instructions.size(), other.instructions.size()) << name << " stage " << s;
  }
  const std::vector<cluster::SentRow> sent = few.sent(), expected = all.sent();
  ASSERT_EQ(sent.size(), expected.size()) << name;
  for (size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sent[i].bytes, expected[i].bytes) << name;
}

TEST(Forecast, OfFewMicroBatchesIsThatOfAll) {
  size_t shorter = 0;
  for (const Layout& layout : layouts())
    for (const int64_t micro_batches : {24, 41, 64}) {
      const config::ResolvedConfig config = with(layout, micro_batches);
      shorter += train::few_micro_batches(config, 0).left_out > 0 ? 1 : 0;
      for (const bool slow : {false, true}) {
        cluster::Cluster c = plain_cluster(2);
        if (slow) c.levels[0].bytes_per_second = 1e8, c.levels[0].latency = 1e-5;
        const Forecast few(config, c, Planned::kFew), all(config, c, Planned::kAll);
        const bool v = layout.pp > 1 && parallel::pipeline::is_v(config.pipeline.schedule);
        expect_equal(few, all, v, layout.name() + " x " + std::to_string(micro_batches));
      }
    }
  EXPECT_GT(shorter, 40u);
}

TEST(Forecast, PlansAsManyMicroBatchesAsFillThePipeline) {
  for (const ScheduleRow& row : parallel::pipeline::kSchedules) {
    Layout layout;
    layout.pp = 4, layout.schedule = row.name;
    if (row.chunks == RankChunks::kConfigured) layout.chunks = 2;
    const train::FewMicroBatches few = train::few_micro_batches(with(layout, 1000), 0);
    const bool repeats = row.schedule != parallel::PipelineSchedule::kGpipe;
    EXPECT_EQ(few.planned + few.left_out, 1000) << row.name;
    EXPECT_EQ(few.left_out % few.period, 0) << row.name;
    EXPECT_EQ(few.planned < 64, repeats) << row.name << " " << few.planned;
  }
  Layout tree;
  tree.dp_shard = 2, tree.tree = true;
  EXPECT_EQ(train::few_micro_batches(with(tree, 1024), 0).left_out, 0);
}

}  // namespace forecast_test
}  // namespace hawser::testing
