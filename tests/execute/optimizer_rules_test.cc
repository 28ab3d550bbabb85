// Tests /optimizer/rules: each tensor is updated as by a run in which its optimizer is that of all tensors,
// with its own rate and decay, in every precision and layout.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/harness/data_parallel_ranks.h"
#include "tests/harness/layout_run.h"

namespace hawser {
namespace optimizer_rules_test {

using testing::data_parallel_ranks;
using testing::Layout;
using testing::Problem;
using testing::StepRecord;

constexpr const char* kPrecisions[] = {"fp32", "bf16", "bf16_pure"};

Problem problem_of(const std::string& precision, const std::string& kind, const std::string& rules = "") {
  Problem p;
  p.precision = precision, p.optimizer = kind, p.rules = rules;
  return p;
}

std::vector<StepRecord> run(const Problem& problem, const Layout& layout, int steps) {
  return testing::run_layout(problem, layout, steps, nullptr);
}

/// Expects the tensors that `named` accepts to be those of `a`, and all others those of `b`.
void expect_from(const StepRecord& both, const StepRecord& a, const StepRecord& b,
                 const std::function<bool(const std::string&)>& named) {
  EXPECT_EQ(both.gradients, a.gradients);
  int64_t from_a = 0, from_b = 0;
  for (const auto& [name, values] : both.weights) {
    ++(named(name) ? from_a : from_b);
    const StepRecord& from = named(name) ? a : b;
    EXPECT_EQ(values, from.weights.at(name)) << name;
    for (size_t s = 0; s < plan::kStateCount; ++s) {
      const auto found = both.states[s].find(name), expected = from.states[s].find(name);
      ASSERT_EQ(found == both.states[s].end(), expected == from.states[s].end()) << name << " " << s;
      if (found == both.states[s].end()) continue;
      EXPECT_EQ(found->second, expected->second) << name << " " << s;
    }
  }
  EXPECT_GT(from_a, 3);
  EXPECT_GT(from_b, 3);
}

TEST(OptimizerRules, ARuleForAllTensorsIsTheSameAsTheSection) {
  for (const char* precision : kPrecisions)
    for (const Layout& layout : {Layout{}, data_parallel_ranks(1, 4, 3)}) {
      const auto rule = run(problem_of(precision, "adamw", R"([{"of": "*", "kind": "lion"}])"), layout, 3);
      EXPECT_EQ(testing::first_difference(rule, run(problem_of(precision, "lion"), layout, 3)), "");
    }
}

TEST(OptimizerRules, OnlyTheArraysOfATensorsOwnOptimizerHaveMemory) {
  const auto planned = [](const Problem& problem) {
    testing::LayoutRun run(problem, data_parallel_ranks(1, 4, 1), nullptr);
    return nlohmann::json::parse(run.trainer().reports().info_json()).at("memory").at("planned_bytes");
  };
  for (const char* precision : kPrecisions) {
    const auto with_rule = planned(problem_of(precision, "adamw", R"([{"of": "*", "kind": "lion"}])"));
    EXPECT_EQ(with_rule, planned(problem_of(precision, "lion")));
    EXPECT_LT(with_rule, planned(problem_of(precision, "adamw")));
  }
}

TEST(OptimizerRules, EachTensorIsUpdatedAsInARunOfItsOwnOptimizer) {
  const auto named = [](const std::string& name) {
    return name.ends_with(".bias") || name.starts_with("blocks.1.mlp.");
  };
  const char* rules = R"([{"of": "*.bias", "kind": "lion"}, {"of": "blocks.1.mlp.*", "kind": "lion"}])";
  for (const char* precision : kPrecisions)
    for (const Layout& layout : {Layout{}, data_parallel_ranks(2, 2, 2), data_parallel_ranks(1, 4, 3)}) {
      const auto both = run(problem_of(precision, "adamw", rules), layout, 1);
      expect_from(both[0], run(problem_of(precision, "lion"), layout, 1)[0],
                  run(problem_of(precision, "adamw"), layout, 1)[0], named);
    }
}

std::map<std::string, std::vector<float>> initial_weights(const Problem& problem) {
  testing::LayoutRun run(problem, {}, nullptr);
  std::map<std::string, std::vector<float>> weights;
  for (const nn::Parameter& p : run.trainer().ranks().table().all()) {
    std::vector<float>& values = weights[p.name];
    values.resize(static_cast<size_t>(p.size));
    run.trainer().tensors().get(train::TensorKind::kWeight, p.name, values.data(), values.size() * 4);
  }
  return weights;
}

TEST(OptimizerRules, TheRateIsAFactorAndTheDecayReplacesThatOfTheSection) {
  const auto first = [](const std::string& rules) {
    return run(problem_of("fp32", "adamw", rules), {}, 1)[0];
  };
  const auto initial = initial_weights(problem_of("fp32", "adamw"));
  EXPECT_EQ(first(R"([{"of": "*", "rate": 0}])").weights, initial);
  const StepRecord usual = first("");
  const StepRecord half = first(R"([{"of": "*norm*", "rate": 0.5}])");
  const StepRecord slow_mlp = first(R"([{"of": "blocks.?.mlp.*.weight", "rate": 0.5}])");
  const StepRecord decayed = first(R"([{"of": "*norm*", "decay": 0.5}, {"of": "*", "decay": 0}])");
  // The first of two steps of warm-up has half of the rate.
  constexpr double kRate = 0.003 / 2, kUsualDecay = 0.1;
  int64_t norms = 0;
  for (const auto& [name, w0] : initial) {
    const bool norm = name.find("norm") != name.npos;
    const bool matrix = !norm && !name.ends_with(".bias");
    norms += norm;
    for (size_t i = 0; i < w0.size(); ++i) {
      const double step = usual.weights.at(name)[i] - w0[i], by = half.weights.at(name)[i] - w0[i];
      ASSERT_NEAR(by, norm ? step / 2 : step, 1e-7) << name;
      const bool slow = name.find(".mlp.") != name.npos && matrix;  // its decay is slower too
      ASSERT_NEAR(slow_mlp.weights.at(name)[i] - w0[i], slow ? step / 2 : step, 1e-7) << name;
      const double undecayed = step + (matrix ? kRate * kUsualDecay * w0[i] : 0.0);
      ASSERT_NEAR(decayed.weights.at(name)[i] - w0[i], undecayed - (norm ? kRate * 0.5 * w0[i] : 0.0), 3e-7)
          << name;
    }
  }
  EXPECT_GT(norms, 4);
}

TEST(OptimizerRules, LayoutsGiveTheSameBitsWithSeveralOptimizersInABlock) {
  const char* rules = R"([{"of": "*norm*", "kind": "lion", "rate": 0.5}, {"of": "blocks.?.mlp.down.*",
      "kind": "sgd"}, {"of": "embedding.*", "decay": 0.3}])";
  for (const char* precision : kPrecisions) {
    Problem problem = problem_of(precision, "adamw", rules);
    problem.tied = false;
    const auto ddp = run(problem, data_parallel_ranks(4, 1, 0), 3);
    for (const Layout& layout : {data_parallel_ranks(1, 4, 1), data_parallel_ranks(2, 2, 2),
                                 data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 3)})
      EXPECT_EQ(testing::first_difference(ddp, run(problem, layout, 3)), "") << layout.name();
    Layout stages = data_parallel_ranks(4, 1, 0);
    stages.pp = 2;
    EXPECT_EQ(testing::first_difference(ddp, run(problem, stages, 3)), "");
  }
}

}  // namespace optimizer_rules_test
}  // namespace hawser
