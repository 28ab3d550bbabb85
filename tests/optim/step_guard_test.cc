// Tests which losses and norms the step guard accepts.
#include "engine/optim/step_guard.h"

#include <gtest/gtest.h>

#include <limits>

namespace hawser {
namespace step_guard_test {

using optim::GuardConfig;
using optim::OutlierPolicy;
using optim::StepGuard;
using optim::Verdict;

TEST(StepGuard, NonFiniteIsRefusedUnlessKept) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  GuardConfig config{.skip_non_finite = true};
  EXPECT_EQ(StepGuard(config).judge(nan, 1), Verdict::kNonFinite);
  EXPECT_EQ(StepGuard(config).judge(1, std::numeric_limits<double>::infinity()), Verdict::kNonFinite);
  config.skip_non_finite = false;
  EXPECT_EQ(StepGuard(config).judge(nan, 1), Verdict::kAccept);
}

TEST(StepGuard, OutliersAreFoundAfterAYoungWindow) {
  GuardConfig config{.skip_non_finite = true};
  config.outlier = OutlierPolicy::kSkip;
  config.outlier_z = 6;
  StepGuard guard(config);
  EXPECT_EQ(guard.judge(1000, 1), Verdict::kAccept);  // there is nothing to compare with yet
  for (int i = 0; i < 128; ++i) guard.accepted(2.0 + 0.01 * (i % 10), 1.0 + 0.01 * (i % 7));
  EXPECT_EQ(guard.judge(2.05, 1.03), Verdict::kAccept);
  EXPECT_EQ(guard.judge(3.0, 1.03), Verdict::kOutlier);
  EXPECT_EQ(guard.judge(2.05, 2.0), Verdict::kOutlier);
  EXPECT_EQ(guard.judge(0.5, 0.5), Verdict::kAccept);  // an unusually low loss is not an outlier
}

TEST(Window, RobustZByHand) {
  optim::Window w;
  for (int i = 0; i < 101; ++i) w.add(i);  // the median is 50, the median deviation is 25
  EXPECT_NEAR(w.robust_z(124.13), (124.13 - 50) / (1.4826 * 25), 1e-12);
}

}  // namespace step_guard_test
}  // namespace hawser
