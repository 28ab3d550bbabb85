// Tests that NCCL registers all memory that exchanges between emulated GPUs access, and that all ranks train
// without registration if one of them cannot register.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "engine/ranks/choose_device.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace registration_test {

using json = nlohmann::json;

class EmulatedRegistrations : public ::testing::Test {
 protected:
  void SetUp() override {
    train::choose_device("cuda");  // opens the plugin
    plugin_ = dlopen(HAWSER_EMULATED_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(plugin_, nullptr) << dlerror();
  }
  void TearDown() override {
    if (plugin_ != nullptr) dlclose(plugin_);
  }
  struct Counts {
    int64_t ranges, outside;
  };
  Counts counts() {
    std::array<int64_t, 2> all{};
    reinterpret_cast<void (*)(int64_t*)>(dlsym(plugin_, "hawser_emulated_gpu_registrations"))(all.data());
    return {all[0], all[1]};
  }
  void fail_registrations_of(int rank) {
    reinterpret_cast<void (*)(int)>(dlsym(plugin_, "hawser_emulated_gpu_fail_registrations"))(rank);
  }

 private:
  void* plugin_ = nullptr;
};

Problem over_nccl() {
  Problem problem;
  problem.precision = "bf16", problem.device = "cuda", problem.device_transport = "nccl";
  problem.weights_every = 0;
  return problem;
}

TEST_F(EmulatedRegistrations, HoldAllMemoryOfExchanges) {
  std::array<Layout, 3> layouts;
  layouts[0].dp_shard = 2, layouts[0].stage = 3;
  layouts[1].tp = 2, layouts[1].dp_shard = 2, layouts[1].stage = 1;
  layouts[2].pp = 2, layouts[2].accumulation = 2;
  for (const Layout& layout : layouts) {
    {
      LayoutRun run(over_nccl(), layout);
      for (int step = 0; step < 3; ++step) run.step();  // also captures exchanges and launches graphs
      const json info = json::parse(run.trainer().reports().info_json());
      const int64_t links = info.at("peer_links").at("links");
      EXPECT_EQ(info.at("peer_links").at("registered"), links) << info.value("registered_without", "");
      EXPECT_EQ(counts().ranges, 2 * links);
    }
    EXPECT_EQ(counts().ranges, 0) << layout.name();
    EXPECT_EQ(counts().outside, 0) << layout.name();
  }
}

TEST_F(EmulatedRegistrations, AreOfAllRanksOrNone) {
  Layout layout;
  layout.dp_shard = 2, layout.stage = 3;
  const std::vector<StepRecord> want = run_layout(over_nccl(), layout, 2);
  fail_registrations_of(1);
  LayoutRun run(over_nccl(), layout);
  fail_registrations_of(-1);
  EXPECT_EQ(counts().ranges, 0);
  const std::vector<StepRecord> got = {run.step(), run.step()};
  EXPECT_EQ(first_difference(want, got), "");
  const json info = json::parse(run.trainer().reports().info_json());
  EXPECT_EQ(info.at("peer_links").at("registered"), 0);
  EXPECT_NE(info.at("registered_without").get<std::string>().find("rank"), std::string::npos);
}

}  // namespace registration_test
}  // namespace hawser::testing
