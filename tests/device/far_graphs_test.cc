// Tests captured steps (engine/execute/step_graphs.h) on far devices, which replay exactly the captured
// work. If a kernel argument that changes from step to step is passed by value, the numbers differ from the
// CPU's.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/report/plan_report.h"
#include "tests/device/far_run.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace far_graphs_test {

using nlohmann::json;
using train::Trainer;

/// Returns the numbers of graphs captured and launched so far.
std::pair<int64_t, int64_t> counts_of(const Trainer& trainer) {
  const json graphs = json::parse(trainer.reports().info_json()).at("graphs");
  return {graphs.at("captured"), graphs.at("launched")};
}

class FarGraphs : public ::testing::Test {
 protected:
  /// Returns a problem whose batches have loss weights, or none, because a graph serves only one of the two.
  static Problem like(int64_t weights_every = 0) {
    Problem problem;
    problem.weights_every = weights_every;
    return problem;
  }
  /// Step 1 submits its work directly, step 2 is captured, and three more steps launch its graphs.
  static void expect_like_cpu(const Problem& problem, const Layout& layout, const char* transport = "host") {
    const std::vector<StepRecord> cpu = run_layout(problem, layout, 5);
    LayoutRun run(far(problem, transport), layout);
    std::vector<StepRecord> records;
    for (int step = 0; step < 5; ++step) records.push_back(run.step());
    EXPECT_EQ(first_difference(cpu, records), "") << layout.name();
    const auto [captured, launched] = counts_of(run.trainer());
    EXPECT_GT(captured, 2) << layout.name();
    EXPECT_EQ(launched, 4 * captured) << layout.name();
    const json memory = json::parse(run.trainer().reports().info_json()).at("memory");
    EXPECT_EQ(memory.at("planned"), memory.at("high_water")) << layout.name();
  }
  void TearDown() override {
    control().cannot_capture = control().fails_captured_fetch = control().fails_launch = false;
    control().captures_left = INT64_MAX;
    EXPECT_EQ(control().graphs, 0) << "graphs outlived their engine";
  }
};

TEST_F(FarGraphs, TrainAsTheCpuDoes) {
  for (const char* precision : {"fp32", "bf16_pure"})
    for (const bool tied : {true, false}) {
      Problem problem = like();
      problem.precision = precision, problem.tied = tied, problem.frozen = !tied;
      Layout layout;
      layout.accumulation = 3;
      expect_like_cpu(problem, layout);
    }
  Layout tree;
  tree.accumulation = 4, tree.tree = true;
  expect_like_cpu(like(), tree);
  expect_like_cpu(like(1), tree);
}

TEST_F(FarGraphs, TrainOnRanksAsTheCpuDoes) {
  for (const char* transport : {"host", "nccl"}) {
    Layout ddp, zero3, hybrid;
    ddp.dp_shard = 2, ddp.accumulation = 2, ddp.reduce = "per_micro_batch";
    zero3.dp_shard = 2, zero3.stage = 3;
    hybrid.dp_replicate = hybrid.dp_shard = 2, hybrid.stage = 2;
    for (const Layout& layout : {ddp, zero3, hybrid}) expect_like_cpu(like(), layout, transport);
  }
}

Layout blocks_of(int64_t tp, int64_t cp, const char* cp_mode = "ring") {
  Layout layout;
  layout.tp = tp, layout.cp = cp, layout.cp_mode = cp_mode, layout.accumulation = 2;
  return layout;
}

/// Returns calls and bytes of each group in all steps so far, without the hosts' agreement on graphs.
json sent(LayoutRun& run) {
  json total = json::parse(run.trainer().metrics().json()).at("communication_total");
  for (json& group : total) {
    group.erase("all_reduce_i64");
    for (json& operation : group) operation.erase("wire_bytes");
  }
  return total;
}

/// Exchanges inside blocks are captured together with the kernels before and after them.
TEST_F(FarGraphs, HoldTheExchangesOfDevicesInsideBlocks) {
  Layout rows = blocks_of(2, 1), zero = blocks_of(2, 1), chunks = blocks_of(2, 1);
  chunks.tp_chunks = 3;
  Layout chunks_of_rows = chunks;
  rows.sequence_parallel = chunks_of_rows.sequence_parallel = false;
  zero.dp_shard = 2, zero.stage = 3;
  for (const Layout& layout :
       {blocks_of(2, 1), rows, zero, blocks_of(1, 2), blocks_of(1, 2, "ulysses"), blocks_of(1, 2, "gather"),
        blocks_of(1, 3), blocks_of(2, 2), chunks, chunks_of_rows})
    for (const bool like_gpt2 : {true, false}) {
      Problem problem = like();
      problem.like_gpt2 = like_gpt2, problem.precision = like_gpt2 ? "fp32" : "bf16";
      expect_like_cpu(problem, layout, "nccl");
    }
}

TEST_F(FarGraphs, CountInTheLedgerAsTheirCallsDo) {
  Layout layout = blocks_of(2, 2);
  layout.tp_chunks = 2;
  LayoutRun cpu(like(), layout), run(far(like(), "nccl"), layout);
  for (int step = 0; step < 4; ++step) cpu.step(), run.step();
  const json want = sent(cpu), got = sent(run);
  for (const char* group : {"tp", "cp"}) EXPECT_EQ(want.at(group), got.at(group)) << group;
  EXPECT_GT(counts_of(run.trainer()).second, 0);
}

TEST_F(FarGraphs, AreNoneWhereExchangesGoThroughTheHost) {
  const Layout layout = blocks_of(2, 1);
  LayoutRun run(far(like()), layout);
  for (int step = 0; step < 3; ++step) run.step();
  const json info = json::parse(run.trainer().reports().info_json());
  EXPECT_EQ(info.at("graphs_without"),
            "no CUDA graphs: exchanges inside blocks go through the host, which takes no part in a graph");
  const auto config = config::ConfigTree::from_json(layout_config(far(like()), layout));
  EXPECT_EQ(json::parse(train::plan_report(config, true)).at("step_graphs"), 0);
}

/// Either all ranks that exchange capture a step, or none.
TEST_F(FarGraphs, ThatOneRankCannotCaptureNoRankLaunches) {
  const Layout layout = blocks_of(2, 1);
  LayoutRun cpu(like(), layout), run(far(like(), "nccl"), layout);
  const auto config = config::ConfigTree::from_json(layout_config(far(like(), "nccl"), layout));
  const int64_t graphs = json::parse(train::plan_report(config, true)).at("step_graphs");
  control().captures_left =
      2 * (graphs - 1) - 1;  // all except the last before the update; one rank has captured all
  for (int step = 0; step < 4; ++step) EXPECT_EQ(first_difference({cpu.step()}, {run.step()}), "") << step;
  const json info = json::parse(run.trainer().reports().info_json());
  EXPECT_NE(info.at("graphs_without").get<std::string>().find("could not capture a step"), std::string::npos);
  EXPECT_EQ(counts_of(run.trainer()).second, 0);
}

/// There are graphs for 3 micro-batches, the norms and the update; the work between them is the host's.
TEST_F(FarGraphs, AreLaunchedInPlaceOfAllThatAStepIsMadeOf) {
  Layout layout;
  layout.accumulation = 3;
  LayoutRun run(far(like()), layout);
  int64_t given[4];
  for (int64_t& step : given) {
    const int64_t before = control().given;
    const Rows rows = rows_of(far(like()), 6, 0);
    run.trainer().push({rows.rows, rows.cols, rows.tokens.data(), rows.targets.data(), nullptr});
    run.trainer().train_step();
    step = control().given - before;
  }
  EXPECT_EQ(counts_of(run.trainer()), (std::pair<int64_t, int64_t>{5, 15}));
  EXPECT_GT(given[0], 200);
  EXPECT_EQ(given[1], given[0] + 5) << "captured, then launched";
  constexpr int64_t kGraphs = 5, kBatches = 3,
                    kOthers = 5;  // sums, scalars, look-ups, scalars; the norm to the host
  EXPECT_EQ(given[2], kGraphs + kBatches + kOthers);
  EXPECT_EQ(given[3], given[2]);
}

/// Engines that train on data, with evaluations and saves between steps.
class FarGraphsOnData : public FarGraphs {
 protected:
  std::unique_ptr<Trainer> make(const char* device, const char* more = "{}", bool packing = false) {
    config::ConfigTree config = small_config(tokens_, "bf16", 1);
    config.set("/data/packing", packing ? "true" : "false");
    config.set("/data/validation_fraction", "0.2");
    config.set("/device", std::string("\"") + device + "\"");
    if (std::string(device) == "cuda") config.set("/cuda", more);
    return Trainer::create(config, false, &cancel_);
  }
  static std::vector<float> logits_of(Trainer& trainer, int64_t rows) {
    std::vector<int32_t> tokens(static_cast<size_t>(rows * 24), 5);
    std::vector<float> logits(tokens.size() * 53);
    trainer.inference().forward({rows, 24, tokens.data(), nullptr, nullptr}, logits.data(),
                                logits.size() * sizeof(float));
    return logits;
  }

  ScratchFolder folder_;
  const std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

TEST_F(FarGraphsOnData, StandBesideEvaluationOtherShapesAndSaves) {
  const auto cpu = make("cpu"), far = make("cuda");
  for (int step = 0; step < 4; ++step) {
    cpu->train_step(), far->train_step();
    EXPECT_EQ(cpu->inference().eval(nullptr, 4).loss, far->inference().eval(nullptr, 4).loss);
    for (const int64_t rows : {3, 3, 1}) EXPECT_EQ(logits_of(*cpu, rows), logits_of(*far, rows));
  }
  far->saves().save(folder_.file("saved"));
  const auto resumed = make("cuda");
  resumed->loads().load(folder_.file("saved"), false);
  for (int step = 0; step < 3; ++step)
    for (Trainer* t : {cpu.get(), far.get(), resumed.get()}) t->train_step();
  expect_equal_tensors(*cpu, *far);
  expect_equal_tensors(*cpu, *resumed);
  EXPECT_GT(counts_of(*far).second, 20);
}

TEST_F(FarGraphsOnData, AreNotMadeOfDocumentsNorUnderATraceNorWhereTheConfigSaysSo) {
  const auto documents = make("cuda", "{}", true), traced = make("cuda"),
             without = make("cuda", R"({"graphs": false})");
  traced->traces().set(true, true);
  for (int step = 0; step < 3; ++step)
    for (Trainer* t : {documents.get(), traced.get(), without.get()}) t->train_step();
  EXPECT_EQ(counts_of(*documents), (std::pair<int64_t, int64_t>{0, 0}));
  EXPECT_EQ(counts_of(*traced), (std::pair<int64_t, int64_t>{0, 0}));
  EXPECT_FALSE(json::parse(without->reports().info_json()).contains("graphs"));
  expect_equal_tensors(*traced, *without);
}

TEST_F(FarGraphs, ThatCannotBeCapturedAreSaidAndDoneWithout) {
  LayoutRun cpu(like(), Layout{}), run(far(like()), Layout{});
  control().cannot_capture = true;
  for (int step = 0; step < 4; ++step) EXPECT_EQ(first_difference({cpu.step()}, {run.step()}), "") << step;
  const json info = json::parse(run.trainer().reports().info_json());
  EXPECT_EQ(info.at("graphs_without"),
            "no CUDA graphs: the device could not capture a step (far memory cannot capture: the test wants "
            "none)");
  EXPECT_EQ(counts_of(run.trainer()), (std::pair<int64_t, int64_t>{0, 0}));
}

/// Nothing of the segment has run when the error is thrown, so the step can be repeated.
TEST_F(FarGraphs, LeaveNothingBehindWhereACaptureOrALaunchFails) {
  LayoutRun cpu(like(), Layout{}), run(far(like()), Layout{});
  const auto fails = [&](std::atomic<bool>* how, int64_t step) {
    *how = true;
    EXPECT_THROW(run.step(), Error) << step;
    *how = false;
    run.skip_to(step);
  };
  for (int64_t step = 0; step < 5; ++step) {
    if (step == 1) fails(&control().fails_captured_fetch, step);
    if (step == 3) fails(&control().fails_launch, step);
    EXPECT_EQ(first_difference({cpu.step()}, {run.step()}), "") << step;
  }
  const json info = json::parse(run.trainer().reports().info_json()), memory = info.at("memory");
  EXPECT_FALSE(info.contains("graphs_without"));
  EXPECT_EQ(memory.at("planned"), memory.at("high_water"));
  EXPECT_EQ(memory.at("planned_bytes"), memory.at("high_water_bytes"));
}

TEST_F(FarGraphs, AreCountedByThePlan) {
  Layout layout;
  layout.accumulation = 3;
  const auto plan = [&](const Problem& problem, bool as_json) {
    return train::plan_report(config::ConfigTree::from_json(layout_config(problem, layout)), as_json);
  };
  EXPECT_EQ(json::parse(plan(far(like()), true)).at("step_graphs"), 5);
  EXPECT_EQ(json::parse(plan(Problem(), true)).at("step_graphs"), 0);
  EXPECT_NE(plan(far(like()), false).find("graphs                       5 a step"), std::string::npos)
      << plan(far(like()), false);
}

}  // namespace far_graphs_test
}  // namespace hawser::testing
