// A GPU that is described has the plans of one that is there, byte for byte: workspaces depend on no library
// and no device.
#include <gtest/gtest.h>

#include "engine/assembly/assemble.h"
#include "engine/ranks/choose_transport.h"
#include "engine/ranks/described_device.h"
#include "engine/ranks/machine.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace described_plan_test {

using train::EnginePlans;

void expect_equal(const EnginePlans& here, const EnginePlans& described) {
  std::vector<const plan::Plan*> all, described_all;
  train::for_each_plan(here, [&](const plan::Plan& plan) { all.push_back(&plan); });
  train::for_each_plan(described, [&](const plan::Plan& plan) { described_all.push_back(&plan); });
  ASSERT_EQ(all.size(), described_all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const plan::Plan &a = *all[i], &b = *described_all[i];
    EXPECT_EQ(a.peak_bytes, b.peak_bytes) << a.name;
    EXPECT_EQ(a.at_peak, b.at_peak) << a.name;
    EXPECT_EQ(a.no_graphs, b.no_graphs) << a.name;
    EXPECT_EQ(a.segments, b.segments) << a.name;
    EXPECT_EQ(a.work, b.work) << a.name;
    ASSERT_EQ(a.slots.size(), b.slots.size()) << a.name;
    for (size_t s = 0; s < a.slots.size(); ++s) {
      EXPECT_EQ(a.slots[s].bytes, b.slots[s].bytes) << a.slots[s].name;
      EXPECT_EQ(a.slots[s].offset, b.slots[s].offset) << a.slots[s].name;
    }
  }
  EXPECT_EQ(here.device_bytes(), described.device_bytes());
  EXPECT_EQ(here.pinned.bytes(), described.pinned.bytes());
}

void expect_the_same(const Problem& problem, const Layout& layout) {
  SCOPED_TRACE(layout.name() + " " + problem.precision);
  const train::Assembly a = train::assemble(config::ConfigTree::from_json(layout_config(problem, layout)));
  const train::DeviceChoice here = train::choose_device("cuda");
  const nn::Model model = train::model_of(a.config, here.tile_rows());
  const kernels::KernelTable& cpu = train::choose_kernels(a.config);
  const bool peers = train::predict_transport(here, a.config).peers;
  std::unique_ptr<train::Machine> machine;
  const auto plans =
      make_stage_plans(model, a.config, target_of(here, peers, a.config, cpu, 1, &machine), false);
  train::DeviceChoice there;
  there.kind = device::Kind::kCuda;
  EXPECT_EQ(there.tile_rows(), here.tile_rows());
  const auto described = make_stage_plans(model, a.config, described_target(there, a.config, cpu, 1), false);
  ASSERT_EQ(plans.size(), described.size());
  for (size_t s = 0; s < plans.size(); ++s) expect_equal(plans[s], described[s]);
}

TEST(DescribedPlans, HaveTheBytesOfADeviceThatIsHere) {
  Problem p;
  p.device = "cuda";
  for (const char* const precision : {"fp32", "bf16"})
    for (const bool like_gpt2 : {true, false}) {
      p.precision = precision, p.like_gpt2 = like_gpt2;
      p.width = 64, p.head_dim = 16;
      p.dropout = like_gpt2 ? 0.1 : 0;
      Layout l;
      expect_the_same(p, l);
      l.dp_shard = 2, l.stage = 3, l.accumulation = 2;
      expect_the_same(p, l);
      l.stage = 1, l.pp = 2;
      expect_the_same(p, l);
      l.pp = 1, l.tp = 2;
      expect_the_same(p, l);
    }
}

/// Head sizes that a library supports need its workspaces.
TEST(DescribedPlans, ReserveWhatLibrariesMayNeed) {
  Problem p;
  p.device = "cuda", p.precision = "bf16", p.dropout = 0, p.like_gpt2 = true;
  p.width = 64, p.heads = 4, p.kv_heads = 4, p.sequence = 24;
  expect_the_same(p, Layout());
}

}  // namespace described_plan_test
}  // namespace hawser::testing
