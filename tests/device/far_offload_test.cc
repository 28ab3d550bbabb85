// Tests what leaves the arena of a device whose memory the host cannot access and whose work is late
// (tests/harness/far_device): all results are bit-identical to the CPU's.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "engine/base/error.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace far_offload_test {

/// Copies in both directions run as late as the device may.
TEST(FarOffload, MovesActivationsToTheHostOrADisk) {
  std::vector<Layout> layouts(5);
  layouts[1].recompute = R"({"policy": "full"})", layouts[1].accumulation = 2;
  layouts[2].dp_shard = 2, layouts[2].stage = 3;
  layouts[3].tp = 2, layouts[3].recompute = R"({"policy": "selective", "arrays": ["qkv", "attention"]})";
  layouts[4].dp_shard = 2, layouts[4].stage = 1, layouts[4].accumulation = 3;
  for (Layout& layout : layouts)
    for (const int prefetch : {1, 2}) {
      Problem problem;
      problem.layers = 7, problem.precision = prefetch == 1 ? "fp32" : "bf16";
      const std::vector<StepRecord> cpu = run_layout(problem, layout, 3);
      Layout away = layout;
      problem.device = "cuda", problem.device_transport = "host";
      for (const std::string& to :
           {std::string(R"("host")"), R"("disk", "folder": ")" + ::testing::TempDir() + "\""}) {
        away.offload = R"({"activations": )" + to + R"(, "prefetch": )" + std::to_string(prefetch) + "}";
        LayoutRun run(problem, away);
        EXPECT_GT(run.trainer().ranks().first().plans().pinned.offload, 0);
        std::vector<StepRecord> records;
        for (int step = 0; step < 3; ++step) records.push_back(run.step());
        EXPECT_EQ(first_difference(cpu, records), "") << away.name();
      }
    }
}

/// State and weights are in the host's memory or in a file, alone or beside activations in another space.
TEST(FarOffload, KeepsStateAndWeightsOnTheHostOrADisk) {
  std::vector<Layout> layouts(4);
  layouts[1].dp_shard = 2, layouts[1].stage = 3, layouts[1].accumulation = 2;
  layouts[2].tp = 2, layouts[2].recompute = R"({"policy": "full"})";
  layouts[3].dp_shard = 2, layouts[3].stage = 1;
  for (Layout& layout : layouts) {
    Problem problem;
    problem.layers = 4, problem.precision = layout.tp == 2 ? "fp32" : "bf16";
    const std::vector<StepRecord> cpu = run_layout(problem, layout, 3);
    Layout away = layout;
    problem.device = "cuda", problem.device_transport = "host";
    const std::string folder = R"(, "folder": ")" + ::testing::TempDir() + "\"";
    for (const std::string& to :
         {std::string(R"("optimizer": "host")"), R"("optimizer": "disk")" + folder,
          R"("optimizer": "host", "activations": "disk")" + folder,
          R"("optimizer": "disk", "activations": "host")" + folder,
          R"("optimizer": "disk", "activations": "disk", "prefetch": 2)" + folder,
          std::string(R"("parameters": "host")"), R"("parameters": "disk", "optimizer": "host")" + folder,
          R"("parameters": "host", "optimizer": "disk", "activations": "host")" + folder}) {
      away.offload = "{" + to + "}";
      EXPECT_EQ(first_difference(cpu, run_layout(problem, away, 3)), "") << away.name();
    }
  }
}

/// A disk that refuses writes fails one step, which can be repeated.
TEST(FarOffload, RepeatsAStepAfterTheDiskFailed) {
  Problem problem;
  problem.layers = 7;
  const std::vector<StepRecord> cpu = run_layout(problem, Layout(), 2);
  Layout away;
  problem.device = "cuda", problem.device_transport = "host";
  away.offload = R"({"activations": "disk", "folder": ")" + ::testing::TempDir() + "\"}";
  LayoutRun run(problem, away);
  std::vector<StepRecord> records = {run.step()};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  try {
    run.step();
    ADD_FAILURE() << "the disk did not fail";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kIo) << error.message();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  run.skip_to(1);
  records.push_back(run.step());
  EXPECT_EQ(first_difference(cpu, records), "");
}

}  // namespace far_offload_test
}  // namespace hawser::testing
