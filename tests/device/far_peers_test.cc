// Tests the engine on far devices that communicate directly (tests/harness/far_device/far_link.h). No part of
// a transfer happens until a side waits, so results that are bit-identical to the CPU's were ordered by
// events. Also tests the choice of transport.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/base/error.h"
#include "engine/ranks/choose_transport.h"
#include "engine/report/plan_report.h"
#include "engine/run/trainer.h"
#include "tests/device/far_run.h"
#include "tests/harness/faulty_comm.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace far_peers_test {

using config::DeviceTransport;
using nlohmann::json;
using train::DeviceCard;

TEST(FarPeers, TrainAsRanksOnTheCpuDo) {
  Problem problem;
  problem.precision = "bf16";
  for (int64_t stage = 0; stage <= 3; ++stage) {
    Layout layout;
    layout.dp_shard = stage == 3 ? 3 : 2, layout.stage = stage, layout.accumulation = 2;
    layout.reduce = stage == 2 ? "per_micro_batch" : "per_step";
    problem.frozen = stage == 1;
    expect_far_like_cpu(problem, layout, "nccl");
  }
}

/// Gradients and weights in records, through the hosts and between the devices.
TEST(FarPeers, SendRecordsAsRanksOnTheCpuDo) {
  for (const char* transport : {"host", "nccl"})
    for (const int64_t stage : {0, 2, 3}) {
      Problem problem;
      problem.precision = stage == 2 ? "bf16" : "fp32";
      Layout layout;
      layout.dp_shard = 4, layout.sum_group = 2, layout.stage = stage, layout.accumulation = 2;
      layout.quantized_gradients = stage == 0 ? "int4" : "int8";
      if (stage == 3) layout.quantized_weights = "int8";
      expect_far_like_cpu(problem, layout, transport);
      if (stage == 0) continue;
      layout.sum_group = 0, layout.dp_replicate = layout.dp_shard = 2, layout.reduce = "per_micro_batch";
      expect_far_like_cpu(problem, layout, transport);
    }
}

TEST(FarPeers, SumInEveryOrderThatRanksOnTheCpuHave) {
  Layout hybrid;
  hybrid.dp_replicate = 2, hybrid.dp_shard = 2, hybrid.stage = 2, hybrid.accumulation = 2;
  hybrid.reduce = "per_micro_batch", hybrid.gradient_type = "bf16";
  expect_far_like_cpu(Problem(), hybrid, "nccl");
  Layout group;
  group.dp_shard = 4, group.stage = 3, group.reshard = "group", group.reshard_group = 2;
  expect_far_like_cpu(Problem(), group, "nccl");
  Layout tree;
  tree.dp_shard = 4, tree.tree = true;
  expect_far_like_cpu(Problem(), tree, "nccl");
}

TEST(FarPeers, HaveAPlanThatShowsWhatTheyTake) {
  Layout layout;
  layout.dp_shard = 2, layout.stage = 3;
  const config::ConfigTree config = config::ConfigTree::from_json(layout_config(far({}, "nccl"), layout));
  const json plan = json::parse(train::plan_report(config, true));
  LayoutRun run(far({}, "nccl"), layout);
  run.step();
  const json info = json::parse(run.trainer().reports().info_json());
  EXPECT_EQ(plan.at("device_transport"), "nccl, because every rank has its own GPU");
  EXPECT_EQ(info.at("device_transport"), plan.at("device_transport"));
  EXPECT_GT(plan.at("device_transport_bytes").get<int64_t>(), 0);
  EXPECT_EQ(info.at("memory").at("device_transport_bytes"), plan.at("device_transport_bytes"));
  EXPECT_EQ(info.at("memory").at("host_staging_bytes"), plan.at("host_staging_bytes"));
  const std::string text = train::plan_report(config, false);
  EXPECT_NE(text.find("transfers       nccl, because"), std::string::npos) << text;
  EXPECT_NE(text.find("bytes beside the arena: sums over ranks"), std::string::npos) << text;
}

TEST(FarPeers, AreNotChosenWhereRanksShareADevice) {
  Problem problem;
  problem.device = "cuda";
  Layout layout;
  layout.dp_shard = 8;
  const auto report = [&] {
    return json::parse(
        train::plan_report(config::ConfigTree::from_json(layout_config(problem, layout)), true));
  };
  const json plan = report();
  EXPECT_EQ(plan.at("device_transport"), "host, because rank 0 and rank 4 share one GPU");
  EXPECT_EQ(plan.at("device_transport_bytes"), 0);
  problem.device_transport = "nccl";
  try {
    report();
    FAIL() << "it says nccl";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDeviceUnavailable);
    EXPECT_NE(error.message().find("is impossible: rank 0 and rank 4 share one GPU; give"), std::string::npos)
        << error.message();
  }
}

/// Links, events and the staging buffer are freed with the engine, so the comm can serve the next one.
TEST(FarPeers, AreFreeAgainForTheNextEngine) {
  Layout layout;
  layout.dp_shard = 2, layout.stage = 3;
  const auto comm = comm::make_local(2);
  for (int engine = 0; engine < 2; ++engine)
    EXPECT_GT(LayoutRun(far({}, "nccl"), layout, comm).step().loss, 0);
}

/// Returns the error of a step; kOk if there is none.
Error error_of(LayoutRun& run) {
  try {
    run.step();
  } catch (const Error& error) {
    return error;
  }
  return Error(Code::kOk, "");
}

/// Returns the error of the step after one with a wrong call.
Error error_after_mistake(LayoutRun& run, FaultyComm& comm) {
  EXPECT_EQ(error_of(run).code(), Code::kOk);
  comm.mistake_types(true);
  EXPECT_EQ(error_of(run).code(), Code::kOk);
  comm.mistake_types(false);
  return error_of(run);
}

/// Devices move the bytes of a wrong call anyway. The wrong call gathers weights at the end of a step.
TEST(FarPeers, NameAWrongCallInTheNextStep) {
  Layout layout;
  layout.dp_shard = 3, layout.stage = 1;
  const auto comm = std::make_shared<FaultyComm>(3, 2, 20, [](comm::Operation) {});
  LayoutRun run(far({}, "nccl"), layout, comm);
  const Error error = error_after_mistake(run, *comm);
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  for (const char* words : {"rank 0 calls all_gather of", "elements of F32", "rank 2 calls all_gather of",
                            "elements of I32", "of group 'dp_shard'", "load the last checkpoint"})
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
  EXPECT_EQ(error_of(run).code(), Code::kAborted) << "the ranks have lost each other";
}

/// Stages of a pipeline make different calls, so each rank is compared only with ranks of its own stage.
TEST(FarPeers, NameAWrongCallOfAStageInTheNextStep) {
  Layout layout;
  layout.pp = layout.dp_shard = 2, layout.stage = 1, layout.accumulation = 2;
  const auto comm = std::make_shared<FaultyComm>(4, 3, 20, [](comm::Operation) {});
  LayoutRun run(far({}, "nccl"), layout, comm);
  const Error error = error_after_mistake(run, *comm);
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  for (const char* words : {"rank 2 calls all_gather of", "rank 3 calls all_gather of", "elements of I32"})
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
}

TEST(FarPeers, NameARankThatHangsAtTheDeadline) {
  constexpr double kDeadline = 2;
  Layout layout;
  layout.dp_shard = 3, layout.stage = 1;
  const auto comm = std::make_shared<FaultyComm>(3, 1, kDeadline, [](comm::Operation now) {
    if (now == comm::Operation::kReduceScatter)
      std::this_thread::sleep_for(std::chrono::duration<double>(3 * kDeadline));
  });
  LayoutRun run(far({}, "nccl"), layout, comm);
  EXPECT_EQ(error_of(run).code(), Code::kOk);
  comm->arm();
  const Error error = error_of(run);
  EXPECT_EQ(error.code(), Code::kTimeout);
  for (const char* words : {"reduce_scatter", "of group 'dp_shard'", "rank 1 never entered"})
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
}

/// Rank 1 hangs before `operation` of step `step`. In the first step each exchange inside a block is watched
/// separately; later all exchanges of a graph are watched as one.
void expect_named(const Layout& layout, comm::Operation operation, int step, const char* group) {
  constexpr double kDeadline = 2;
  const auto comm = std::make_shared<FaultyComm>(
      static_cast<int32_t>(layout.world()), 1, kDeadline, [&](comm::Operation now) {
        if (now == operation) std::this_thread::sleep_for(std::chrono::duration<double>(3 * kDeadline));
      });
  Problem problem = far({}, "nccl");
  problem.weights_every = 0;
  LayoutRun run(problem, layout, comm);
  for (int before = 0; before < step; ++before) EXPECT_EQ(error_of(run).code(), Code::kOk);
  comm->arm();
  const Error error = error_of(run);
  EXPECT_EQ(error.code(), Code::kTimeout);
  EXPECT_NE(error.message().find("rank 1 never entered"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find(group), std::string::npos) << error.message();
}

TEST(FarPeers, NameARankThatHangsInsideABlock) {
  Layout pair;
  pair.tp = 2;
  expect_named(pair, comm::Operation::kAllGather, 0, "of group 'tp'");
  Layout grid = pair;
  grid.dp_shard = 2, grid.accumulation = 3, grid.reduce = "per_micro_batch";
  expect_named(grid, comm::Operation::kReduceScatter, 3, "of group '");
}

TEST(FarPeers, SumInChunksAsRanksOnTheCpuDo) {
  for (const char* precision : {"fp32", "bf16"})
    for (const bool sequence_parallel : {true, false}) {
      Problem problem;
      problem.precision = precision;
      Layout layout;
      layout.tp = 2, layout.sequence_parallel = sequence_parallel, layout.dp_shard = 2, layout.stage = 3;
      layout.tp_chunks = 3, layout.accumulation = 2;
      expect_far_like_cpu(problem, layout, "nccl");
    }
}

TEST(FarPeers, RefuseChunksThroughTheHost) {
  Layout layout;
  layout.tp = 2, layout.tp_chunks = 3;
  try {
    LayoutRun(far({}, "host"), layout);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kConfigInvalid);
    EXPECT_NE(e.message().find("/mesh/tp_chunks 3 has no effect"), std::string::npos) << e.message();
  }
}

TEST(DeviceTransport, IsNcclForAllRanksOrForNone) {
  const DeviceCard one = {"1", ""}, two = {"2", ""}, without = {"3", "libnccl.so.2 was not found"};
  const auto chosen = [](DeviceTransport wanted, const std::vector<DeviceCard>& cards) {
    return train::choose_transport(wanted, cards).reason;
  };
  EXPECT_TRUE(train::choose_transport(DeviceTransport::kAuto, {one, two}).peers);
  EXPECT_TRUE(train::choose_transport(DeviceTransport::kNccl, {one, two}).peers);
  EXPECT_FALSE(train::choose_transport(DeviceTransport::kAuto, {one, two, one}).peers);
  EXPECT_EQ(chosen(DeviceTransport::kAuto, {one, two, one}), "host, because rank 0 and rank 2 share one GPU");
  EXPECT_EQ(chosen(DeviceTransport::kAuto, {one, without}),
            "host, because rank 1: libnccl.so.2 was not found");
  EXPECT_EQ(chosen(DeviceTransport::kHost, {one, two}), "host, because /comm/device_transport says so");
  EXPECT_THROW(chosen(DeviceTransport::kNccl, {one, without}), Error);
}

}  // namespace far_peers_test
}  // namespace hawser::testing
