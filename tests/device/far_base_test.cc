// Tests the frozen base of an adapter on a device whose memory the host cannot access
// (tests/harness/far_device): in 4 bits, and in the memory of another engine. All results are bit-identical
// to the CPU's.
#include <gtest/gtest.h>

#include <thread>

#include "tests/device/far_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace far_base_test {

using train::Trainer;

/// The host quantises the base, ranks gather it as records through host memory, and the device decodes it.
TEST(FarBase, InNf4TrainsAsOnTheCpu) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem problem;
    problem.precision = precision, problem.adapter = R"({"rank": 2, "base": "nf4"})";
    Layout layout;
    expect_far_like_cpu(problem, layout);
    layout.dp_shard = 4, layout.stage = 3, layout.reshard = "group", layout.reshard_group = 2;
    expect_far_like_cpu(problem, layout);
    problem.width = problem.mlp_width = 128;  // so that ranks have some rows of it, or a part of each row
    Layout divided;
    divided.tp = 2;
    expect_far_like_cpu(problem, divided);
  }
}

/// Creates an inference engine on the folder, with the adapter (without weights for it) or without.
std::unique_ptr<Trainer> lender(Problem problem, const Layout& layout, std::atomic<bool>* cancel) {
  if (problem.adapter.find("nf4") == problem.adapter.npos) problem.adapter.clear();
  const auto comm = layout.world() > 1 ? comm::make_local(static_cast<int32_t>(layout.world())) : nullptr;
  return Trainer::create(config::ConfigTree::from_json(layout_config(problem, layout)), true, cancel, comm);
}

/// Two adapters train at once on the memory of a base engine, which outlives that engine; each is
/// bit-identical to a CPU engine that has all weights itself.
void expect_lent(const Problem& problem, const Layout& layout) {
  std::atomic<bool> cancel{false};
  auto base = lender(far(problem), layout, &cancel);
  Problem other = problem;
  other.adapter.replace(other.adapter.find("2"), 1, "3");
  LayoutRun first(far(problem), layout, nullptr, base.get()), second(far(other), layout, nullptr, base.get());
  base.reset();
  std::vector<StepRecord> steps[2];
  const auto train = [](LayoutRun* run, std::vector<StepRecord>* records) {
    for (int i = 0; i < 3; ++i) records->push_back(run->step());
  };
  std::thread beside(train, &second, &steps[1]);
  train(&first, &steps[0]);
  beside.join();
  EXPECT_EQ(first_difference(run_layout(problem, layout, 3), steps[0]), "") << layout.name();
  EXPECT_EQ(first_difference(run_layout(other, layout, 3), steps[1]), "") << layout.name();
}

/// While it exists, work of each far device may use the memory of all, as on one real device.
class OneMemory {
 public:
  OneMemory() { control().shares_memory = true; }
  ~OneMemory() { control().shares_memory = false; }
};

TEST(FarBase, IsLentToSeveralAdapters) {
  const OneMemory memory;
  const ScratchFolder folder;
  Problem problem;
  problem.from = folder.file("base");
  for (const char* precision : {"fp32", "bf16"}) {
    Problem model;
    model.precision = precision;
    LayoutRun(model, {}).trainer().saves().save(problem.from);
    problem.precision = precision;
    for (const char* adapter : {R"({"rank": 2})", R"({"rank": 2, "base": "nf4"})"}) {
      problem.adapter = adapter;
      std::vector<Layout> layouts(3);
      layouts[1].dp_shard = 2, layouts[1].stage = 3;
      layouts[2].tp = 2;
      // Tensor parallelism would divide blocks of 64.
      if (problem.adapter.find("nf4") != problem.adapter.npos) layouts.pop_back();
      for (const Layout& layout : layouts) expect_lent(problem, layout);
    }
    std::filesystem::remove_all(problem.from);
  }
}

/// A new score head belongs to the base engine, so that engine must be created with it.
TEST(FarBase, OfALanguageModelServesRewardModels) {
  const OneMemory memory;
  const ScratchFolder folder;
  Problem problem;
  problem.from = folder.file("base");
  LayoutRun({}, {}).trainer().saves().save(problem.from);
  problem.adapter = R"({"rank": 2})", problem.objective = R"({"kind": "reward"})";
  expect_lent(problem, {});

  std::atomic<bool> cancel{false};
  Problem language = problem;
  language.objective.clear();
  const auto base = lender(language, {}, &cancel);
  const std::string said =
      refused(Code::kConfigInvalid, [&] { LayoutRun(problem, {}, nullptr, base.get()); });
  EXPECT_NE(said.find("create the base engine with model.head \"score\""), std::string::npos) << said;
}

TEST(FarBase, IsRefusedToAnotherDevice) {
  const ScratchFolder folder;
  Problem problem;
  problem.from = folder.file("base");
  LayoutRun({}, {}).trainer().saves().save(problem.from);
  problem.adapter = R"({"rank": 2})";
  std::atomic<bool> cancel{false};
  const auto base = lender(far(problem), {}, &cancel);
  const std::string said =
      refused(Code::kConfigInvalid, [&] { LayoutRun(problem, {}, nullptr, base.get()); });
  EXPECT_NE(said.find("/device: the base engine has its weights on another device"), std::string::npos)
      << said;
}

}  // namespace far_base_test
}  // namespace hawser::testing
