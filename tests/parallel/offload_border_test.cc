// Border test: state that the gradient phase fetches for the update phase. The update finds it or fetches it
// again, whatever the host program does between the two phases; a step that is dropped leaves nothing behind,
// and the arena has the planned bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tests/harness/equal_tensors.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace offload_border_test {

using train::TensorKind;
using train::Trainer;

const plan::Plan& train_plan(const Trainer& trainer) { return trainer.ranks().first().plans().train; }

std::string on_disk(int64_t prefetch, const char* parameters = "off") {
  return fmt::format(R"({{"optimizer": "disk", "parameters": "{}", "folder": "{}", "prefetch": {}}})",
                     parameters, ::testing::TempDir(), prefetch);
}

/// The same steps with all state in the arena and with state on disk.
class Both : public ::testing::TestWithParam<int32_t> {
 protected:
  void start(const std::string& precision, const std::string& members = "", const char* parameters = "disk") {
    const std::string mesh = GetParam() > 1 ? R"(, "mesh": {"dp_shard": 2}, "zero": {"stage": 3})" : "";
    const auto make = [&](const std::string& more) {
      return Trainer::create(small_config(tokens_, precision, 1, mesh + members + more), false, &cancel_,
                             GetParam() > 1 ? comm::make_local(GetParam()) : nullptr);
    };
    kept_ = make(""), away_ = make(", \"offload\": " + on_disk(1, parameters));
    ASSERT_TRUE(train_plan(*away_).has_crossing());
    away_->ranks().on_each([](train::Rank& rank, int32_t) { rank.executor().fill_new_slots(); });
  }
  void both(const std::function<void(Trainer&)>& call) { call(*kept_), call(*away_); }
  void expect_equal() {
    expect_equal_tensors(*kept_, *away_);
    const train::SlotLedger& slots = away_->ranks().first().executor().slots();
    EXPECT_EQ(slots.high_water(), train_plan(*away_).peak_bytes);
    EXPECT_EQ(slots.live_at_peak(), train_plan(*away_).at_peak);
  }

  const ScratchFolder folder_;
  const std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
  std::unique_ptr<Trainer> kept_, away_;
};

TEST_P(Both, DiscardDropsWhatWasFetched) {
  for (const char* precision : {"fp32", "bf16"}) {
    start(precision);
    for (const bool rewind : {true, false, true}) {
      both([&](Trainer& t) { t.forward_backward(), t.discard(rewind); });
      both([](Trainer& t) { t.train_step(); });
    }
    const std::string path = folder_.file(precision);
    kept_->saves().save(path);
    both([](Trainer& t) { t.train_step(), t.forward_backward(), t.discard(true); });
    both([&](Trainer& t) { t.loads().load(path, false); });
    both([](Trainer& t) { t.forward_backward(), t.commit(); });
    expect_equal();
  }
}

TEST_P(Both, AStepThatOverflowsDropsWhatWasFetched) {
  start("fp16", R"(, "loss_scale": {"initial": 4294967296}, "guard": {"max_consecutive_skips": 30})");
  int accepted = 0, skipped = 0;
  for (int i = 0; i < 40 && accepted < 3; ++i)
    both([&](Trainer& t) {
      (t.train_step().outcome == train::Outcome::kAccepted ? accepted : skipped) += &t == away_.get();
    });
  EXPECT_EQ(accepted, 3);
  EXPECT_GT(skipped, 0);
  expect_equal();
}

TEST_P(Both, TheHostMayUseTheEngineBetweenThePhases) {
  for (const char* precision : {"fp32", "bf16_pure"}) {
    start(precision);
    const std::string name = "embedding.tokens.weight";
    const size_t size = 53 * 40;
    std::vector<float> other(size);
    for (size_t i = 0; i < size; ++i) other[i] = 0.25f * static_cast<float>(i % 7);
    const std::function<void(Trainer&)> calls[] = {
        [](Trainer& t) { t.inference().eval(nullptr, 1); },
        [&](Trainer& t) { t.tensors().set(TensorKind::kMoment1, name, other.data(), size * 4); },
        [&](Trainer& t) { t.tensors().set(TensorKind::kWeight, name, other.data(), size * 4); },
        [&](Trainer& t) {
          t.tensors().set(TensorKind::kMoment2, name, other.data(), size * 4);
          EXPECT_EQ(tensor(t, TensorKind::kMoment2, name, size), other);
          t.inference().eval(nullptr, 1);
        },
        [&](Trainer& t) { tensor(t, TensorKind::kGradient, name, size); },
        [&](Trainer& t) {
          const std::vector<int32_t> prompt = {1, 2, 3};
          t.inference().generate({prompt.data(), 3, 4, 0.8, 10, 0.9, 3, {}}, [](int32_t) { return true; });
        },
    };
    for (const auto& call : calls) {
      both([&](Trainer& t) { t.forward_backward(), call(t), t.commit(); });
      expect_equal_tensors(*kept_, *away_);
    }
    both([](Trainer& t) { t.train_step(); });
    expect_equal();
  }
}

/// A save reads the state of its moment, although later steps fetch, drop and write it.
TEST_P(Both, SavesBesideStepsReadTheStateOfTheirMoment) {
  start("bf16", fmt::format(R"(, "checkpoint": {{"async": true, "path": "{}"}})", folder_.file("run")));
  both([](Trainer& t) { t.train_step(); });
  kept_->saves().save(folder_.file("kept"));
  const auto begun = away_->saves().save_async(folder_.file("beside"));
  away_->forward_backward(), away_->discard(true);
  for (int i = 0; i < 2; ++i) away_->train_step();
  EXPECT_TRUE(begun->wait(-1));
  for (int i = 0; i < 2; ++i) kept_->train_step();
  expect_equal();
  kept_->loads().load(folder_.file("kept"), false);
  away_->loads().load(folder_.file("beside"), false);
  expect_equal();
}

INSTANTIATE_TEST_SUITE_P(Ranks, Both, ::testing::Values(1, 2));

/// A step whose update follows its gradients at once.
void train(const Problem& problem, const Layout& layout, int step, LayoutRun* run) {
  Rows rows = rows_of(problem, problem.micro_batch * layout.accumulation, step);
  std::fill(rows.targets.begin(), rows.targets.end(), 5);
  run->trainer().push(rows.view());
  run->trainer().train_step();
}

/// Only FETCHes for the update cross, behind the backward of the last micro-batch, and the peak is that of a
/// plan that fetches in the update phase.
TEST(OffloadBorder, IsPlannedWithoutMoreMemory) {
  for (const int64_t prefetch : {1, 3})
    for (const char* parameters : {"off", "disk"}) {
      Problem problem;
      problem.precision = "bf16", problem.layers = 5;
      Layout layout;
      layout.accumulation = 2, layout.offload = on_disk(prefetch, parameters);
      LayoutRun run(problem, layout);
      const plan::Plan& plan = train_plan(run.trainer());
      size_t forward = 0, crossing = 0;
      for (size_t i = 0; i < plan.commit; ++i) {
        if (plan.instructions[i].op == plan::Op::kForward) forward = i;
        if (!plan.crosses(i)) continue;
        ++crossing;
        EXPECT_EQ(plan.instructions[i].op, plan::Op::kFetch);
        EXPECT_GT(i, forward);
        EXPECT_LE(plan.instructions[i].block, prefetch);
      }
      EXPECT_GE(crossing, 2u);
      for (int step = 0; step < 2; ++step) train(problem, layout, step, &run);
      EXPECT_EQ(run.trainer().ranks().first().executor().slots().high_water(), plan.peak_bytes);
    }
}

/// The state of a block takes longer to come than the backward in front of it.
TEST(OffloadBorder, TheUpdateWaitsForWhatIsStillOnItsWay) {
  Problem problem;
  problem.layers = 1, problem.width = 256, problem.heads = 4, problem.mlp_width = 8400, problem.dropout = 0;
  problem.micro_batch = 1, problem.sequence = 2;
  Layout away;
  away.offload = on_disk(3);
  LayoutRun kept(problem, {}), moved(problem, away);
  ASSERT_TRUE(train_plan(moved.trainer()).has_crossing());
  for (int step = 0; step < 4; ++step)
    for (LayoutRun* run : {&kept, &moved}) train(problem, {}, step, run);
  expect_equal_tensors(kept.trainer(), moved.trainer());
}

}  // namespace offload_border_test
}  // namespace hawser::testing
