// Shapes of learning rate schedules, and their values at both ends.
#include "engine/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hawser {
namespace {

using optim::learning_rate;
using optim::ScheduleKind;

TEST(LrSchedule, Shapes) {
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kConstant, 4, 100, 0, 0}, 1.0, 2), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kConstant, 4, 100, 0, 0}, 1.0, 77), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kLinear, 0, 100, 0, 0.2}, 1.0, 50), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kCosine, 10, 110, 0, 0.1}, 1.0, 60), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kCosine, 10, 110, 0, 0.1}, 1.0, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kCosine, 10, 110, 0, 0.1}, 1.0, 5000), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kWsd, 10, 100, 50, 0.0}, 1.0, 60), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kWsd, 10, 100, 50, 0.0}, 1.0, 80), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kInverseSqrt, 16, 0, 0, 0.0}, 1.0, 64), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kInverseSqrt, 16, 0, 0, 0.3}, 1.0, 6400), 0.3);
}

}  // namespace
}  // namespace hawser
