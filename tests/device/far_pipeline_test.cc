// Tests pipelines on far devices (tests/harness/far_device), whose memory the host cannot access and whose
// work is late. Messages between stages go through host memory, or from device to device. Every result is
// bit-identical to that of one stage on the CPU: a copy that is missing, too early or too late would change
// it, and a deadlock of stages would reach the time limit.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/device/far_run.h"
#include "tests/harness/answers.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/schedules.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace far_pipeline_test {

using nlohmann::json;

constexpr int kSteps = 3;

Layout pipeline(int64_t pp, const std::string& schedule) {
  Layout layout;
  layout.pp = pp, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
  layout.accumulation = schedule_row(schedule).chunks == parallel::pipeline::RankChunks::kV ? 2 * pp + 1 : 5;
  return layout;
}

Problem problem_of(bool tied, int64_t layers = 4) {
  Problem problem;
  problem.tied = tied, problem.layers = layers;
  return problem;
}

void expect_bits(const Problem& problem, const Layout& layout) {
  Layout one = layout;
  one.pp = 1, one.chunks = 1, one.schedule = "1f1b", one.layers_of_chunks = {};
  const std::vector<StepRecord> want = reference_run(problem, one, kSteps);
  for (const char* transport : {"host", "nccl"}) {
    if (transport[0] == 'n' && layout.world() > 4) continue;  // there are only four devices
    EXPECT_EQ(first_difference(want, run_layout(far(problem, transport), layout, kSteps)), "")
        << layout.name() << " " << transport;
  }
}

TEST(FarPipeline, HasTheBitsOfOneStageOnTheCpu) {
  for (const std::string& schedule : all_schedules())
    for (const int64_t pp : {2, 4}) expect_bits(problem_of(pp == 2, 9), pipeline(pp, schedule));
}

TEST(FarPipeline, WithAnUntiedHeadHasThemToo) {
  for (const char* schedule : {"1f1b", "zbv"}) {
    Problem problem = problem_of(schedule[0] == 'z');
    problem.like_gpt2 = false, problem.precision = "bf16", problem.frozen = schedule[0] == 'z';
    expect_bits(problem, pipeline(2, schedule));
  }
}

TEST(FarPipeline, UnderDataParallelismHasThemToo) {
  for (const int64_t stage : {0, 1, 2, 3})
    for (const char* reduce : {"per_step", "per_micro_batch"}) {
      Layout layout = pipeline(2, stage % 2 == 0 ? "1f1b" : "zb_h1");
      layout.dp_shard = 2, layout.stage = stage, layout.reduce = reduce;
      expect_bits(problem_of(stage != 2), layout);
    }
}

TEST(FarPipeline, OfReplicasOfShardsHasThemToo) {
  Layout layout = pipeline(2, "1f1b");
  layout.dp_replicate = layout.dp_shard = 2, layout.stage = 2, layout.reduce = "per_micro_batch";
  expect_bits(problem_of(true), layout);
  layout.dp_replicate = 1, layout.dp_shard = 4, layout.stage = 3, layout.reshard = "group",
  layout.reshard_group = 2;
  expect_bits(problem_of(true), layout);
}

TEST(FarPipeline, WithRecomputeOrBlocksOfSeveralRanksHasThemToo) {
  Layout recompute = pipeline(2, "zb_h1");
  recompute.recompute = R"({"policy": "full"})";
  expect_bits(problem_of(true), recompute);
  Layout blocks = pipeline(2, "1f1b");
  blocks.tp = 2;
  expect_bits(problem_of(true), blocks);
  blocks.tp = 1, blocks.cp = 2, blocks.schedule = "zb_h1";
  expect_bits(problem_of(true), blocks);
}

/// From the second step on, the computation of a stage between two messages is launched as a graph.
TEST(FarPipeline, HasThemInGraphsToo) {
  for (const char* transport : {"host", "nccl"}) {
    Problem problem = problem_of(true);
    problem.weights_every = 0;
    const Layout layout = pipeline(2, "1f1b");
    LayoutRun run(far(problem, transport), layout);
    std::vector<StepRecord> records;
    for (int step = 0; step < kSteps; ++step) records.push_back(run.step());
    EXPECT_EQ(first_difference(run_layout(problem, layout, kSteps), records), "");
    const json info = json::parse(run.trainer().reports().info_json());
    EXPECT_FALSE(info.contains("graphs_without")) << info.at("graphs_without");
    EXPECT_EQ(info.at("graphs").at("launched"), 2 * info.at("graphs").at("captured").get<int64_t>());
    EXPECT_GT(info.at("graphs").at("captured"), 0);
  }
}

TEST(FarPipeline, AnswersAsOneStageOnTheCpuDoes) {
  for (const char* schedule : {"1f1b", "zbv"})
    for (const char* transport : {"host", "nccl"}) {
      const Problem problem = problem_of(true);
      LayoutRun one(problem, Layout()), stages(far(problem, transport), pipeline(2, schedule));
      const Answers want = ask(one.trainer(), problem, 12), got = ask(stages.trainer(), problem, 12);
      EXPECT_EQ(got.logits, want.logits) << schedule << " " << transport;
      EXPECT_EQ(got.logprobs, want.logprobs) << schedule << " " << transport;
      EXPECT_EQ(got.text, want.text) << schedule << " " << transport;
      const Rows rows = rows_of(problem, 11, 0);  // two micro-batches at once, twice, then the rest
      const train::BatchView view = rows.view();
      EXPECT_EQ(stages.trainer().inference().eval(&view, 0).loss,
                one.trainer().inference().eval(&view, 0).loss);
    }
}

/// Ranks with other rows have run other shapes, so only ranks that compute a block together agree on graphs.
TEST(FarPipeline, AnswersInBlocksOfSeveralRanksWithUnequalRows) {
  const Problem problem = problem_of(true);
  Layout layout;
  layout.tp = layout.dp_shard = 2;
  LayoutRun cpu(problem, layout), run(far(problem, "nccl"), layout);
  for (int time = 0; time < 2; ++time) {
    const Answers want = ask(cpu.trainer(), problem, 12), got = ask(run.trainer(), problem, 12);
    EXPECT_EQ(got.logits, want.logits);
    EXPECT_EQ(got.loss, want.loss);
  }
}

/// An inference engine loads the weights of a checkpoint, including a table that is sent to the head's stage.
TEST(FarPipeline, AnswersFromACheckpointAndTracesItsSteps) {
  const ScratchFolder folder;
  const Problem problem = problem_of(true);
  const Layout layout = pipeline(2, "1f1b");
  LayoutRun one(problem, Layout());
  one.step();
  one.trainer().saves().save(folder.file("saved"));
  const Answers want = ask(one.trainer(), problem, 12);
  for (const char* transport : {"host", "nccl"}) {
    config::ConfigTree config = config::ConfigTree::from_json(layout_config(far(problem, transport), layout));
    config.set("/init/from", "\"" + folder.file("saved") + "\"");
    std::atomic<bool> cancel{false};
    const auto answering = train::Trainer::create(config, true, &cancel, comm::make_local(2));
    const Answers got = ask(*answering, problem, 12);
    EXPECT_EQ(got.logits, want.logits) << transport;
    EXPECT_EQ(got.text, want.text) << transport;
    EXPECT_EQ(got.loss, want.loss) << transport;

    LayoutRun run(far(problem, transport), layout);
    run.trainer().traces().set(true, true);
    run.step();
    EXPECT_GT(json::parse(run.trainer().traces().report(train::TraceForm::kJson))
                  .at("otherData")
                  .at("pipeline")
                  .at("predicted_seconds"),
              0.0);
  }
}

/// Each lane between stages has pinned memory for one message, or none if devices communicate directly.
TEST(FarPipeline, PlansItsMemoryToTheByte) {
  for (const std::string& schedule : all_schedules())
    for (const char* transport : {"host", "nccl"}) {
      Layout layout = pipeline(2, schedule);
      layout.dp_shard = 2, layout.stage = 3;
      SCOPED_TRACE(layout.name() + " " + transport);
      LayoutRun run(far(problem_of(true), transport), layout);
      run.step();
      for (int32_t r = 0; r < layout.world(); ++r) {
        const train::Rank& rank = run.trainer().ranks().at(r);
        EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().train.peak_bytes) << r;
        int64_t messages = 0;
        std::set<plan::Lane> lanes;
        for (const plan::Instruction& n : rank.plans().train.instructions)
          if (plan::is_message(n.op) && n.op < plan::Op::kSendTableGrad) lanes.insert(n.lane);
        for (const plan::Lane lane : lanes) {
          const int64_t bytes = rank.plans().pinned.messages[static_cast<size_t>(lane)];
          EXPECT_EQ(bytes, transport[0] == 'h' ? 2 * 12 * 24 * 4 : 0) << plan::lane_name(lane);
          messages += bytes;
        }
        for (const plan::Lane lane : {plan::Lane::kTable, plan::Lane::kTableGradient})
          messages += rank.plans().pinned.messages[static_cast<size_t>(lane)];
        const train::PinnedBytes& pinned = rank.plans().pinned;
        EXPECT_EQ(pinned.bytes(), pinned.step + pinned.transfers + pinned.exchange + messages) << r;
      }
    }
}

}  // namespace far_pipeline_test
}  // namespace hawser::testing
