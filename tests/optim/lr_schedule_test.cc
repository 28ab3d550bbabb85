// Tests the shapes of learning rate schedules, and their values at both ends.
#include "engine/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace hawser {
namespace lr_schedule_test {

using optim::learning_rate;
using optim::ScheduleKind;

TEST(LrSchedule, Shapes) {
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kConstant, 4, 100, 0, 0}, 1.0, 2), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kConstant, 4, 100, 0, 0}, 1.0, 77), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kLinear, 0, 100, 0, 0.2}, 1.0, 51), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kCosine, 10, 110, 0, 0.1}, 1.0, 61), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kCosine, 10, 110, 0, 0.1}, 1.0, 111), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kCosine, 10, 110, 0, 0.1}, 1.0, 5000), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kWsd, 10, 100, 50, 0.0}, 1.0, 60), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kWsd, 10, 100, 50, 0.0}, 1.0, 81), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kInverseSqrt, 16, 0, 0, 0.0}, 1.0, 64), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kInverseSqrt, 16, 0, 0, 0.3}, 1.0, 6400), 0.3);
}

struct Rates {
  ScheduleKind kind;
  int64_t warmup, steps;
  std::vector<double> rates;  ///< rates of all steps
};

/// These are the rates of Transformers' get_linear_schedule_with_warmup and get_cosine_schedule_with_warmup,
/// in six digits. Only the warm-up differs: the first of w steps has 1 / w of the peak in Hawser, and 0 in
/// Transformers.
const Rates kTable[] = {
    {ScheduleKind::kLinear, 0, 1, {1}},
    {ScheduleKind::kLinear, 0, 2, {1, 0.5}},
    {ScheduleKind::kLinear, 0, 3, {1, 0.666667, 0.333333}},
    {ScheduleKind::kLinear, 0, 10, {1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1}},
    {ScheduleKind::kCosine, 0, 1, {1}},
    {ScheduleKind::kCosine, 0, 2, {1, 0.5}},
    {ScheduleKind::kCosine, 0, 3, {1, 0.75, 0.25}},
    {ScheduleKind::kCosine,
     0,
     10,
     {1, 0.975528, 0.904508, 0.793893, 0.654508, 0.5, 0.345492, 0.206107, 0.095492, 0.024472}},
    {ScheduleKind::kLinear, 1, 1, {1}},
    {ScheduleKind::kLinear, 1, 2, {1, 1}},
    {ScheduleKind::kLinear, 1, 3, {1, 1, 0.5}},
    {ScheduleKind::kCosine, 1, 3, {1, 1, 0.5}},
    {ScheduleKind::kLinear, 2, 10, {0.5, 1, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125}},
    {ScheduleKind::kCosine,
     2,
     10,
     {0.5, 1, 1, 0.961940, 0.853553, 0.691342, 0.5, 0.308658, 0.146447, 0.038060}},
    {ScheduleKind::kWsd, 2, 10, {0.5, 1, 1, 1, 1, 0.833333, 0.666667, 0.5, 0.333333, 0.166667}},
};

TEST(LrSchedule, RatesOfEveryStepAreThoseOfTheTable) {
  for (const Rates& row : kTable) {
    const int64_t stable = row.kind == ScheduleKind::kWsd ? 2 : 0;
    ASSERT_EQ(row.rates.size(), static_cast<size_t>(row.steps));
    for (int64_t step = 1; step <= row.steps; ++step)
      EXPECT_NEAR(learning_rate({row.kind, row.warmup, row.steps, stable, 0}, 1.0, step),
                  row.rates[static_cast<size_t>(step - 1)], 5e-7)
          << "step " << step << " of " << row.steps << ", warm-up of " << row.warmup;
  }
}

TEST(LrSchedule, ADecayOfShapeSqrtFallsAsOneMinusTheRoot) {
  constexpr double kRates[] = {0.5, 1, 1, 1, 1, 0.591752, 0.422650, 0.292893, 0.183503, 0.087129, 0};
  for (const double low : {0.0, 0.2})
    for (int64_t step = 1; step <= 11; ++step) {
      const optim::ScheduleConfig schedule{ScheduleKind::kWsd, 2, 10, 2, low, optim::DecayShape::kSqrt};
      const double rate = kRates[step - 1], above = step > 2 ? low + (1 - low) * rate : rate;
      EXPECT_NEAR(learning_rate(schedule, 1.0, step), above, 1e-6) << step;
    }
}

TEST(LrSchedule, NoStepOfADecayToZeroHasARateOfZero) {
  for (const ScheduleKind kind : {ScheduleKind::kLinear, ScheduleKind::kCosine, ScheduleKind::kWsd})
    for (const int64_t warmup : {0, 1, 3})
      for (const int64_t steps : {4, 5, 9, 1000})
        for (int64_t step = 1; step <= steps; ++step)
          EXPECT_GT(learning_rate({kind, warmup, steps, 0, 0}, 2e-4, step), 0) << step << " of " << steps;
}

TEST(LrSchedule, RunsOfOlderVersionsKeepTheirRates) {
  const auto older = [](ScheduleKind kind, int64_t step) {
    return learning_rate({kind, 2, 10, 0, 0}, 1.0, step, optim::DecayProgress::kWithStep);
  };
  EXPECT_DOUBLE_EQ(older(ScheduleKind::kLinear, 1), 0.5);
  EXPECT_DOUBLE_EQ(older(ScheduleKind::kLinear, 2), 1);
  EXPECT_DOUBLE_EQ(older(ScheduleKind::kLinear, 3), 0.875);
  EXPECT_DOUBLE_EQ(older(ScheduleKind::kLinear, 10), 0);
  EXPECT_DOUBLE_EQ(older(ScheduleKind::kCosine, 6), 0.5);
  EXPECT_DOUBLE_EQ(older(ScheduleKind::kCosine, 10), 0);
}

}  // namespace lr_schedule_test
}  // namespace hawser
