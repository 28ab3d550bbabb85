// Batch ramp tests: the size of a step follows from the rows consumed. A ramp of one size gives the bits of
// none, and a ramp of several sizes the bits of runs of one size each that are joined by checkpoints.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/ranks/fit_ranks.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/ramp_run.h"
#include "tests/harness/random_config.h"
#include "tests/harness/schedules.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace ramp_test {

using nlohmann::json;
using train::Trainer;

constexpr int kStepsOfSize = 2;  // with_ramp

/// Runs each size by an engine of its own, which continues from a checkpoint of the one before.
void expect_joined(const json& config, const RampSizes& sizes) {
  const std::string text = with_ramp(config, sizes).dump();
  SCOPED_TRACE(text);
  const ScratchFolder folder;
  RampRun ramp(with_ramp(config, sizes));
  std::unique_ptr<RampRun> one;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::unique_ptr<RampRun> before = std::move(one);
    one = std::make_unique<RampRun>(with_micro_batches(config, sizes[i]));
    if (before) {
      before->trainer().saves().save(folder.file(std::to_string(i)));
      one->trainer().loads().load(folder.file(std::to_string(i)), false);
    }
    for (int step = 0; step < kStepsOfSize; ++step) ASSERT_EQ(ramp.step(), one->step()) << "size " << i;
    ASSERT_EQ(ramp.tensors(), one->tensors()) << "size " << i;
  }
}

TEST(Ramp, OfOneSizeGivesTheBitsOfNone) {
  for (const uint64_t seed : random_seeds(6)) {
    const json config = json::parse(random_config(seed));
    const auto size = config.at("batch").at("grad_accum_steps").get<int64_t>();
    SCOPED_TRACE(config.dump());
    RampRun ramp(with_ramp(config, {size, size})), none(config);
    ASSERT_EQ(ramp.steps(3), none.steps(3));
    ASSERT_EQ(ramp.tensors(), none.tensors());
    ASSERT_EQ(ramp.trainer().ranks().first().plans().smaller_train.size(), 0u);
  }
}

TEST(Ramp, GivesTheBitsOfRunsOfOneSizeEach) {
  size_t checked = 0;
  for (const uint64_t seed : random_seeds(12)) {
    const json config = json::parse(random_config(seed));
    const std::optional<RampSizes> sizes = draw_sizes(config, 3, seed);
    if (!sizes) continue;
    expect_joined(config, *sizes);
    if (HasFatalFailure()) return;
    ++checked;
  }
  EXPECT_GT(checked, 6u);
}

/// The cursor of any checkpoint determines the size of the next step, so a resumed run may get a ramp.
TEST(Ramp, ContinuesARunThatHadNone) {
  const json config = json::parse(layout_config(Problem(), Layout()));
  const ScratchFolder folder;
  RampRun before(with_micro_batches(config, 1)), ramp(with_ramp(config, {1, 3})),
      after(with_micro_batches(config, 3));
  before.steps(kStepsOfSize);
  before.trainer().saves().save(folder.file("saved"));
  for (RampRun* run : {&ramp, &after}) run->trainer().loads().load(folder.file("saved"), false);
  EXPECT_EQ(ramp.steps(2), after.steps(2));
  EXPECT_EQ(ramp.tensors(), after.tensors());
}

/// Layouts in which steps of one micro-batch reduce gradients otherwise than steps of several.
TEST(Ramp, MixesStepsOfOneMicroBatchWithLargerOnes) {
  for (const char* reduce : {"per_step", "per_micro_batch"})
    for (const int64_t stage : {0, 1, 2, 3})
      for (const char* precision : {"fp32", "bf16_pure"}) {
        Problem problem;
        problem.precision = precision;
        Layout layout;
        layout.dp_shard = 2, layout.dp_replicate = stage > 1 ? 2 : 1, layout.stage = stage;
        layout.reduce = reduce, layout.accumulation = 2;
        if (stage < 3) layout.bucket_bytes = 3000;
        expect_joined(json::parse(layout_config(problem, layout)), {1, 3, 2});
      }
}

TEST(Ramp, DividesByThePairsAndRowsOfEachStep) {
  for (const char* objective :
       {R"({"kind": "dpo"})", R"({"kind": "simpo"})", R"({"kind": "orpo"})", R"({"kind": "reward"})"})
    for (const int64_t ranks : {1, 2}) {
      Problem problem;
      problem.objective = objective;
      Layout layout;
      layout.dp_shard = ranks, layout.accumulation = 2;
      expect_joined(json::parse(layout_config(problem, layout)), {1, 2, 4});
    }
  Problem mixture;
  mixture.experts = R"({"experts": 4, "top_k": 2, "width": 20})";
  mixture.moe = R"({"aux_loss": 0.3, "z_loss": 0.1})";
  Layout experts;
  experts.dp_shard = 2, experts.ep = 2, experts.accumulation = 2;
  expect_joined(json::parse(layout_config(mixture, experts)), {1, 3, 2});
}

/// Promise L2: at equal data-parallel ranks.
TEST(Ramp, EveryStageAndPipelineGivesTheBitsOfDdp) {
  Layout ddp;
  ddp.dp_shard = 2, ddp.accumulation = 2;
  const RampSizes sizes = {4, 8, 6};  // a V of two stages needs four
  const auto run = [&](const Layout& layout) {
    Problem problem;
    problem.layers = 4;
    RampRun ramp(with_ramp(json::parse(layout_config(problem, layout)), sizes));
    return ramp.steps(6);
  };
  const std::vector<RampRun::Step> want = run(ddp);
  for (const int64_t stage : {1, 2, 3}) {
    Layout layout = ddp;
    layout.stage = stage;
    EXPECT_EQ(run(layout), want) << layout.name();
  }
  for (const std::string& schedule : all_schedules()) {
    Layout layout = ddp;
    layout.pp = 2, layout.schedule = schedule, layout.chunks = chunks_of(schedule);
    EXPECT_EQ(run(layout), want) << layout.name();
  }
}

/// Promise L3: one tree sums the micro-batches of a step, however ranks divide them.
TEST(Ramp, UnderTheTreeEveryDegreeGivesTheBitsOfOneRank) {
  std::vector<RampRun::Step> want;
  for (const int64_t ranks : {1, 2, 4})
    for (const int64_t stage : {0, 1, 3}) {
      if (ranks == 1 && stage > 0) continue;
      Layout layout;
      layout.dp_shard = ranks, layout.stage = stage, layout.tree = true, layout.accumulation = 2;
      RampSizes sizes;
      for (const int64_t all : {4, 8, 16}) sizes.push_back(all / ranks);
      RampRun ramp(with_ramp(json::parse(layout_config(Problem(), layout)), sizes));
      const std::vector<RampRun::Step> got = ramp.steps(6);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << layout.name();
    }
}

TEST(Ramp, TakesTheMemoryOfTheLargestStep) {
  Problem problem;
  Layout layout;
  layout.dp_shard = 2, layout.stage = 2, layout.accumulation = 2;
  const json config = json::parse(layout_config(problem, layout));
  RampRun ramp(with_ramp(config, {1, 2, 4})), largest(with_micro_batches(config, 4));
  for (int32_t r = 0; r < 2; ++r) {
    const train::EnginePlans &plans = ramp.trainer().ranks().at(r).plans(),
                             &alone = largest.trainer().ranks().at(r).plans();
    EXPECT_EQ(plans.arena_bytes, alone.arena_bytes);
    EXPECT_EQ(plans.train.peak_bytes, alone.train.peak_bytes);
    EXPECT_LT(plans.train_of(1).peak_bytes, plans.train.peak_bytes);
    for (const plan::Plan& plan : plans.smaller_train)
      EXPECT_EQ(plan.persistent_bytes, plans.train.persistent_bytes);
  }
  for (const int64_t micro_batches : {1, 2, 4}) {
    ramp.steps(kStepsOfSize);
    ramp.trainer().ranks().on_each([&](train::Rank& rank, int32_t) {
      EXPECT_EQ(rank.executor().slots().high_water(), rank.plans().train_of(micro_batches).peak_bytes);
      EXPECT_EQ(rank.executor().slots().live_at_peak(), rank.plans().train_of(micro_batches).at_peak);
    });
  }
}

/// A trainer on data of files, of packed documents.
class RampOfData : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const std::string& ramp, const std::string& more = "{}") {
    config::ConfigTree config = small_config(tokens_);
    config.set("/batch", R"({"micro_batch": 2, "sequence": 24})");
    config.set("/batch/ramp", ramp);
    const json fields = json::parse(more);
    for (const auto& [pointer, value] : fields.items()) config.set(pointer, value.dump());
    const int64_t world = train::assemble(config).config.mesh.world();
    return Trainer::create(config, false, &cancel_,
                           world > 1 ? comm::make_local(static_cast<int32_t>(world)) : nullptr);
  }

  ScratchFolder folder_;
  std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

constexpr const char* kRamp =
    R"([{"from_rows": 0, "global_batch": 4}, {"from_rows": 10, "global_batch": 8}, {"from_rows": 28, "global_batch": 12}])";

TEST_F(RampOfData, StepsGrowByTheRowsConsumed) {
  const auto trainer = make(kRamp);
  const std::vector<int64_t> rows = {4, 4, 4, 8, 8, 12, 12};  // after 0, 4, 8, 12, 20, 28 and 40 rows
  int64_t samples = 0;
  for (const int64_t of_step : rows) {
    EXPECT_EQ(trainer->next_rows(), of_step);
    EXPECT_EQ(json::parse(trainer->reports().info_json()).at("step_rows"), of_step);
    const train::StepResult result = trainer->train_step();
    EXPECT_EQ(result.rows, of_step);
    EXPECT_EQ(result.samples, samples += of_step);
    EXPECT_DOUBLE_EQ(trainer->tokens_per_second(), static_cast<double>(of_step * 24) / result.seconds);
  }
}

TEST_F(RampOfData, ADiscardedStepCountsUnlessItIsRewound) {
  const auto trainer = make(kRamp);
  for (int i = 0; i < 2; ++i) trainer->train_step();
  trainer->forward_backward();
  EXPECT_EQ(trainer->next_rows(), 4);
  EXPECT_EQ(trainer->discard(true).samples, 8);
  EXPECT_EQ(trainer->next_rows(), 4);
  trainer->forward_backward();
  EXPECT_EQ(trainer->discard(false).samples, 12);
  EXPECT_EQ(trainer->next_rows(), 8);
}

TEST_F(RampOfData, GoesOnFromACheckpointInsideTheRamp) {
  for (const char* mesh : {"{}", R"({"/mesh/dp_shard": 2, "/zero/stage": 2})"})
    for (const int until : {2, 3, 5}) {
      const auto whole = make(kRamp, mesh), half = make(kRamp, mesh), resumed = make(kRamp, mesh);
      const std::string path =
          folder_.file(std::string(mesh).size() > 2 ? "ranks" : "one") + std::to_string(until);
      for (int i = 0; i < until; ++i) whole->train_step(), half->train_step();
      half->saves().save(path);
      resumed->loads().load(path, false);
      for (int i = until; i < 8; ++i) {
        const train::StepResult a = whole->train_step(), b = resumed->train_step();
        EXPECT_EQ(a.rows, b.rows);
        EXPECT_EQ(a.samples, b.samples);
        EXPECT_EQ(a.loss, b.loss);
        EXPECT_EQ(a.grad_norm, b.grad_norm);
      }
      expect_equal_tensors(*whole, *resumed);
    }
}

TEST_F(RampOfData, OtherRanksTrainOnTheSameRows) {
  const auto one = make(kRamp);
  config::ConfigTree config = small_config(tokens_);
  config.set("/batch", R"({"micro_batch": 4, "sequence": 24})");
  config.set("/batch/ramp", kRamp);
  const config::ConfigTree two = train::fit_ranks(config, 2);
  EXPECT_EQ(config::resolve(two).batch.micro_batch, 2);
  EXPECT_EQ(config::resolve(two).batch.grad_accum_steps, 3);
  const auto ranks = Trainer::create(two, false, &cancel_, comm::make_local(2));
  for (int i = 0; i < 7; ++i) {
    const train::StepResult a = one->train_step(), b = ranks->train_step();
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_NEAR(a.loss, b.loss, 1e-5 * a.loss);
  }
  const std::string message = refused(Code::kConfigInvalid, [&] { train::fit_ranks(config, 3); });
  EXPECT_NE(message.find("multiples of 4 rows; use 2 or 4 ranks"), message.npos) << message;
}

TEST_F(RampOfData, ASourceIsAskedForTheRowsOfEachStep) {
  const auto data = make(kRamp), source = make(kRamp);
  std::vector<int64_t> rows;
  source->set_source([&](train::SourceRequest* r) {
    rows.push_back(r->rows);
    for (int64_t i = 0; i < r->rows * r->cols; ++i) r->room.tokens[i] = r->room.targets[i] = 1 + i % 40;
    return true;
  });
  for (int i = 0; i < 7; ++i) source->train_step();
  EXPECT_EQ(rows, (std::vector<int64_t>{4, 4, 4, 8, 8, 12, 12}));
}

TEST_F(RampOfData, TracesTheSizeThatRanLast) {
  const auto trainer = make(kRamp);
  trainer->traces().set(true);
  for (const size_t micro_batches : {2, 2, 2, 4, 4, 6}) {
    trainer->train_step();
    const train::EnginePlans& plans = trainer->ranks().first().plans();
    EXPECT_EQ(trainer->traces().timeline(0).times.size(),
              plans.train_of(static_cast<int64_t>(micro_batches)).instructions.size());
    EXPECT_FALSE(trainer->traces().report(train::TraceForm::kJson).empty());
  }
}

}  // namespace ramp_test
}  // namespace hawser::testing
