// Simulated pipeline test: the simulator on the plans of all stages gives the integers of the papers, closed
// forms for unequal costs, and for every schedule the results of an obvious replay of its actions
// (pipeline_replay.h).
#include <gtest/gtest.h>

#include <random>

#include "engine/plan/measured_costs.h"
#include "engine/plan/timeline.h"
#include "tests/parallel/pipeline/stage_plans.h"

namespace hawser::testing {
namespace simulated_test {

using parallel::PipelineSchedule;
using parallel::pipeline::RankChunks, parallel::pipeline::Shape;

std::string text(const Shape& s, const PartCosts& c) {
  return std::string(parallel::pipeline::schedule_name(s.schedule)) + " p " + std::to_string(s.stages) +
         " m " + std::to_string(s.micro_batches) + " v " + std::to_string(s.chunks) + " costs " +
         std::to_string(c.forward) + " " + std::to_string(c.input) + " " + std::to_string(c.weight);
}

double makespan(const Shape& shape, const PartCosts& costs = {}) {
  const std::vector<plan::Plan> plans = stage_plans(shape);
  return plan::summarise_pipeline(pointers_to(plans), simulated(plans, costs)).makespan;
}

template <typename Fn>
void each_shape(Fn fn) {
  for (const int64_t p : {1, 2, 3, 4, 8})
    for (const int64_t m : {p, 2 * p, 3 * p, 5 * p}) {
      for (const auto& row : parallel::pipeline::kSchedules) {
        if (row.chunks == RankChunks::kOne) fn(Shape{row.schedule, p, m});
        for (const int64_t v : {2, 3})
          if (row.chunks == RankChunks::kConfigured && p > 1) fn(Shape{row.schedule, p, m, v, p});
        if (row.chunks == RankChunks::kV && p > 1 && m >= 2 * p) fn(Shape{row.schedule, p, m, 2});
      }
    }
}

TEST(SimulatedPipeline, TakesTheIntegersOfThePapers) {
  each_shape([](const Shape& shape) {
    const int64_t p = shape.stages, m = shape.micro_batches, v = shape.chunks;
    int64_t want = 0;
    switch (shape.schedule) {
      case PipelineSchedule::kGpipe:
      case PipelineSchedule::k1F1B:
        want = 3 * (m + p - 1);
        break;
      case PipelineSchedule::kInterleaved:
        want = 3 * m * v + 3 * (p - 1);
        break;
      case PipelineSchedule::kZbH1:
        want = 3 * m + p - 1;
        break;
      case PipelineSchedule::kZbv:
      case PipelineSchedule::kDualPipeV:
        want = 6 * m + p - 1;
        break;
    }
    EXPECT_EQ(makespan(shape), static_cast<double>(want)) << text(shape, {});
  });
}

/// Uses unequal costs of a chunk's forward F, input pass I and weight pass W.
TEST(SimulatedPipeline, TakesTheClosedFormsOfUnequalCosts) {
  for (const PartCosts& c : {PartCosts{2, 3, 1}, PartCosts{5, 4, 3}, PartCosts{3, 3, 2}, PartCosts{7, 9, 1}})
    each_shape([&](const Shape& shape) {
      const int64_t p = shape.stages, m = shape.micro_batches, v = shape.chunks;
      const int64_t all = c.forward + c.input + c.weight;
      int64_t want = 0;
      switch (shape.schedule) {
        case PipelineSchedule::kGpipe:
        case PipelineSchedule::k1F1B:
        case PipelineSchedule::kInterleaved:
          want = (m * v + p - 1) * all;
          break;
        case PipelineSchedule::kZbH1:
          want = m * all + (p - 1) * (c.forward + c.input - c.weight);
          break;
        case PipelineSchedule::kZbv:
        case PipelineSchedule::kDualPipeV:
          return;  // no closed form
      }
      EXPECT_EQ(makespan(shape, c), static_cast<double>(want)) << text(shape, c);
    });
}

TEST(SimulatedPipeline, TakesWhatAnObviousPlayOfEveryScheduleDoes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 4; ++round) {
    const auto below = [&](int64_t n) {
      return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(n));
    };
    const PartCosts c{below(9), below(9), below(9)};
    each_shape([&](const Shape& shape) {
      EXPECT_EQ(makespan(shape, c), static_cast<double>(play(shape, false, c).makespan)) << text(shape, c);
    });
  }
}

/// Checks, with equal costs, the share of a step that is waiting and the gain of ZB-H1 over 1F1B.
TEST(SimulatedPipeline, TellsWhatTheRampCosts) {
  const auto ramp = [](PipelineSchedule schedule, int64_t p, int64_t m, int64_t v = 1) {
    const std::vector<plan::Plan> plans = stage_plans({schedule, p, m, v, p});
    return plan::summarise_pipeline(pointers_to(plans), simulated(plans, {}));
  };
  EXPECT_DOUBLE_EQ(ramp(PipelineSchedule::k1F1B, 4, 8).idle, 3.0 / 11);
  EXPECT_DOUBLE_EQ(ramp(PipelineSchedule::kZbv, 4, 8, 2).idle, 3.0 / 51);
  EXPECT_DOUBLE_EQ(ramp(PipelineSchedule::kInterleaved, 4, 8, 2).idle, 9.0 / 57);
  EXPECT_DOUBLE_EQ(ramp(PipelineSchedule::kGpipe, 1, 8).idle, 0);
  const double one = ramp(PipelineSchedule::k1F1B, 4, 8).makespan,
               zero = ramp(PipelineSchedule::kZbH1, 4, 8).makespan;
  EXPECT_DOUBLE_EQ(one / zero, 33.0 / 27);
  EXPECT_GE(one / zero, 1.15);
}

/// p micro-batches pass p stages in the time of 2p - 1 forwards instead of p * p.
TEST(SimulatedPipeline, EvaluatesOneMicroBatchForEachStageAtTheSameTime) {
  for (const int64_t p : {2, 3, 4, 8})
    for (const PipelineSchedule schedule : {PipelineSchedule::k1F1B, PipelineSchedule::kInterleaved}) {
      const Shape shape{schedule, p, p, schedule == PipelineSchedule::k1F1B ? 1 : 2, p};
      const std::vector<plan::Plan> plans = stage_plans(shape, plan::Stage().sent_lifetime_actions, true);
      EXPECT_EQ(plan::find_deadlock(pointers_to(plans)), "");
      EXPECT_EQ(plan::summarise_pipeline(pointers_to(plans), simulated(plans, {})).makespan,
                static_cast<double>(p * shape.chunks + p - 1))
          << text(shape, {});
    }
}

/// The simulator makes the traced step. Its prediction from that step's costs must be the step itself.
TEST(SimulatedPipeline, ForetellsTheStepWhoseCostsItIsGiven) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  each_shape([&](const Shape& shape) {
    const std::vector<plan::Plan> plans = stage_plans(shape);
    std::vector<std::vector<plan::CostTable>> costs;
    for (const plan::Plan& plan : plans) {
      plan::CostTable& c = costs.emplace_back(1).front();
      for (size_t i = 0; i < plan.instructions.size(); ++i) {
        c.seconds.push_back(static_cast<double>(random() % 50));
        c.transfer_seconds.push_back(static_cast<double>(1 + random() % 10));
      }
    }
    const auto step = simulate(pointers_to(plans), costs);
    const auto again = simulate(pointers_to(plans), plan::measured_costs(pointers_to(plans), step));
    for (size_t s = 0; s < plans.size(); ++s)
      for (size_t i = 0; i < plans[s].instructions.size(); ++i)
        ASSERT_EQ(again[s][0].times[i].end, step[s][0].times[i].end)
            << text(shape, {}) << " stage " << s << " at " << i;
  });
}

}  // namespace simulated_test
}  // namespace hawser::testing
