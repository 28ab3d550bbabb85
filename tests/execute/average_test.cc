// Tests /optimizer/average: the moving average of the weights, beside all optimizers and in every layout, and
// its use in the place of the weights.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/harness/data_parallel_ranks.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/refusal.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace average_test {

using testing::data_parallel_ranks;
using testing::expect_error;
using testing::Layout;
using testing::LayoutRun;
using testing::Problem;
using testing::StepRecord;
using train::TensorKind;

using Values = std::map<std::string, std::vector<float>>;

Problem problem_of(const std::string& precision, const std::string& kind, double average) {
  Problem p;
  p.precision = precision, p.optimizer = kind, p.average = average;
  return p;
}

Values values_of(train::Trainer& trainer, TensorKind kind) {
  Values all;
  for (const nn::Parameter& p : trainer.ranks().table().all()) {
    if (!trainer.tensors().keeps(kind, p)) continue;
    std::vector<float>& values = all[p.name];
    values.resize(static_cast<size_t>(p.size));
    trainer.tensors().get(kind, p.name, values.data(), values.size() * sizeof(float));
  }
  return all;
}

const Values& averages(const StepRecord& record) { return record.states[plan::kAverageOfWeights]; }

TEST(Average, IsTheFormulaOfTheWeightsThatItsOptimizerMakes) {
  const float beta = 0.75f, rest = 0.25f;
  for (const char* precision : {"fp32", "bf16", "fp16"})
    for (const char* kind : {"adamw", "sgd", "lion", "muon", "adamw8"})
      for (const Layout& layout : {Layout{}, data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1)}) {
        SCOPED_TRACE(std::string(precision) + " " + kind + " " + layout.name());
        LayoutRun run(problem_of(precision, kind, 0.75), layout);
        LayoutRun without(problem_of(precision, kind, -1), layout);
        Values expected = values_of(run.trainer(), TensorKind::kWeight);
        EXPECT_EQ(values_of(run.trainer(), TensorKind::kAverage), expected);
        for (int step = 0; step < 3; ++step) {
          const StepRecord record = run.step();
          EXPECT_EQ(record.weights, without.step().weights);
          for (auto& [name, values] : expected)
            for (size_t i = 0; i < values.size(); ++i)
              values[i] = std::fma(beta, values[i], rest * record.weights.at(name)[i]);
          ASSERT_EQ(averages(record), expected) << step;
        }
      }
}

TEST(Average, OfDecay0IsTheWeights) {
  for (const StepRecord& record :
       testing::run_layout(problem_of("bf16", "adamw", 0), data_parallel_ranks(1, 2, 2), 3))
    EXPECT_EQ(averages(record), record.weights);
}

TEST(Average, LeavesOutWhatIsFrozen) {
  Problem p = problem_of("fp32", "adamw", 0.5);
  p.frozen = true;
  LayoutRun run(p, {});
  const StepRecord record = run.step();
  std::set<std::string> averaged, trained;
  for (const auto& [name, values] : averages(record)) averaged.insert(name);
  for (const auto& [name, values] : record.states[plan::kFirstMoment]) trained.insert(name);
  EXPECT_EQ(averaged, trained);
  EXPECT_EQ(averaged.count("embedding.positions.weight"), 0u);
}

TEST(Average, HasTheSameBitsInEveryLayout) {
  Problem p = problem_of("bf16", "adamw", 0.9);
  p.layers = 4;
  const auto shards = testing::run_layout(p, data_parallel_ranks(1, 4, 1), 3);
  const auto expect_same = [&](const Layout& layout) {
    EXPECT_EQ(testing::first_difference(shards, testing::run_layout(p, layout, 3)), "") << layout.name();
  };
  expect_same(data_parallel_ranks(4, 1, 0));
  expect_same(data_parallel_ranks(1, 4, 2));
  expect_same(data_parallel_ranks(1, 4, 3));
  expect_same(data_parallel_ranks(2, 2, 3));
  Layout stages = data_parallel_ranks(1, 4, 1);
  stages.pp = 2;
  expect_same(stages);
  Layout on_disk = data_parallel_ranks(1, 4, 3);
  on_disk.offload = nlohmann::json{{"optimizer", "disk"},
                                   {"parameters", "disk"},
                                   {"folder", std::filesystem::temp_directory_path().string()}}
                        .dump();
  expect_same(on_disk);
}

class AverageInUse : public ::testing::TestWithParam<std::string> {};

TEST_P(AverageInUse, TakesThePlaceOfTheWeightsUntilTheyReturn) {
  for (const Layout& layout : {Layout{}, data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1)}) {
    SCOPED_TRACE(layout.name());
    const Problem p = problem_of(GetParam(), "adamw", 0.5);
    LayoutRun run(p, layout), as_weights(p, layout), without(p, layout);
    for (int step = 0; step < 2; ++step) run.step(), without.step();
    train::Trainer& trainer = run.trainer();
    const Values weights = values_of(trainer, TensorKind::kWeight);
    const Values average = values_of(trainer, TensorKind::kAverage);
    EXPECT_NE(weights, average);
    for (const auto& [name, values] : average)
      as_weights.trainer().tensors().set(TensorKind::kWeight, name, values.data(),
                                         values.size() * sizeof(float));
    const testing::Rows rows = testing::rows_of(p, p.micro_batch * layout.accumulation * layout.dp(), 7);
    const train::BatchView batch = rows.view();
    const double loss = trainer.inference().eval(&batch, 0).loss;

    trainer.use_average(true);
    trainer.use_average(true);
    EXPECT_EQ(values_of(trainer, TensorKind::kWeight), average);
    EXPECT_EQ(trainer.inference().eval(&batch, 0).loss,
              as_weights.trainer().inference().eval(&batch, 0).loss);
    EXPECT_NE(trainer.inference().eval(&batch, 0).loss, loss);
    const std::string name = weights.begin()->first;
    const auto refused = [&](const auto& call) {
      expect_error(Code::kFailedPrecondition, {"the average of the weights is in use"}, call);
    };
    refused([&] { trainer.push(batch); });
    refused([&] { trainer.saves().save("nowhere"); });
    refused([&] { trainer.loads().load("nowhere", false); });
    refused([&] {
      trainer.tensors().set(TensorKind::kWeight, name, weights.at(name).data(),
                            weights.at(name).size() * sizeof(float));
    });

    trainer.use_average(false);
    EXPECT_EQ(values_of(trainer, TensorKind::kWeight), weights);
    EXPECT_EQ(values_of(trainer, TensorKind::kAverage), average);
    EXPECT_EQ(trainer.inference().eval(&batch, 0).loss, loss);
    EXPECT_EQ(testing::first_difference({run.step()}, {without.step()}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, AverageInUse, ::testing::Values("fp32", "bf16", "fp16"),
                         [](const auto& test) { return test.param; });

TEST(Average, IsRefusedWhereThereIsNone) {
  LayoutRun run(problem_of("fp32", "adamw", -1), {});
  expect_error(Code::kFailedPrecondition, {"set /optimizer/average"},
               [&] { run.trainer().use_average(true); });
  LayoutRun pending(problem_of("fp32", "adamw", 0.5), {});
  const testing::Rows rows = testing::rows_of(Problem{}, 2, 0);
  pending.trainer().push(rows.view());
  pending.trainer().forward_backward();
  expect_error(Code::kFailedPrecondition, {"pending"}, [&] { pending.trainer().use_average(true); });
}

class AverageInCheckpoints : public ::testing::Test {
 protected:
  /// Takes two steps and saves.
  static void save(const std::string& path, LayoutRun* run) {
    for (int step = 0; step < 2; ++step) run->step();
    run->trainer().saves().save(path);
  }
  static Problem from(Problem p, const std::string& folder, bool average) {
    p.from = folder, p.init_average = average;
    return p;
  }
  testing::ScratchFolder folder_;
};

TEST_F(AverageInCheckpoints, GoesOnInAnyLayout) {
  const Problem p = problem_of("bf16", "lion", 0.5);
  LayoutRun run(p, data_parallel_ranks(1, 4, 1));
  save(folder_.file("saved"), &run);
  const StepRecord next = run.step();
  for (const Layout& layout : {data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1)}) {
    LayoutRun resumed(p, layout);
    resumed.trainer().loads().load(folder_.file("saved"), false);
    resumed.skip_to(2);
    EXPECT_EQ(testing::first_difference({next}, {resumed.step()}), "") << layout.name();
  }
}

TEST_F(AverageInCheckpoints, BeginsAsTheWeightsIfACheckpointHasNone) {
  const Problem without = problem_of("fp32", "adamw", -1);
  LayoutRun run(without, {});
  save(folder_.file("saved"), &run);
  LayoutRun resumed(problem_of("fp32", "adamw", 0.5), data_parallel_ranks(1, 2, 3));
  resumed.step();
  resumed.trainer().loads().load(folder_.file("saved"), false);
  EXPECT_EQ(values_of(resumed.trainer(), TensorKind::kAverage),
            values_of(run.trainer(), TensorKind::kWeight));
}

TEST_F(AverageInCheckpoints, IsNotLostByAnEngineWithoutIt) {
  const Problem p = problem_of("fp32", "adamw", 0.5);
  LayoutRun run(p, {});
  save(folder_.file("saved"), &run);
  LayoutRun without(problem_of("fp32", "adamw", -1), {});
  expect_error(Code::kCheckpointIncompatible, {"optimizer.average."},
               [&] { without.trainer().loads().load(folder_.file("saved"), false); });
}

TEST_F(AverageInCheckpoints, BecomesTheWeightsOfAnotherEngineOnRequest) {
  Problem p = problem_of("bf16", "adamw", 0.5);
  p.kv_heads = p.heads, p.mlp_width = 4 * p.width;  // a model of the family gpt2
  LayoutRun run(p, data_parallel_ranks(1, 2, 1));
  save(folder_.file("saved"), &run);
  LayoutRun weights(from(p, folder_.file("saved"), false), {}),
      average(from(p, folder_.file("saved"), true), {});
  EXPECT_EQ(values_of(weights.trainer(), TensorKind::kWeight), values_of(run.trainer(), TensorKind::kWeight));
  EXPECT_EQ(values_of(average.trainer(), TensorKind::kWeight),
            values_of(run.trainer(), TensorKind::kAverage));
  EXPECT_EQ(values_of(average.trainer(), TensorKind::kAverage),
            values_of(run.trainer(), TensorKind::kAverage));

  Problem without = p;
  without.average = -1;
  LayoutRun none(without, {});
  save(folder_.file("none"), &none);
  expect_error(Code::kCheckpointIncompatible, {"no average of its weights"},
               [&] { LayoutRun(from(p, folder_.file("none"), true), {}); });
  run.trainer().exports().model_to(folder_.file("exported"), "");
  expect_error(Code::kConfigInvalid, {"/init/average"},
               [&] { LayoutRun(from(p, folder_.file("exported"), true), {}); });
}

}  // namespace average_test
}  // namespace hawser
