// The state of a run survives conversion to text, digit for digit.
#include "engine/train/save/run_state.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace hawser {
namespace {

TEST(RunState, RoundTripsExactly) {
  train::RunState s;
  s.step = 12, s.accepted = 11, s.samples = 77, s.skipped = 1;
  s.best_validation_loss = 1.0 / 3.0;
  for (int i = 0; i < 200; ++i) s.losses.add(0.1 * i), s.norms.add(1e-300 / (i + 1));
  const train::RunState back = train::run_state_from_json(train::to_json(s));
  EXPECT_EQ(back.step, 12);
  EXPECT_EQ(back.best_validation_loss, s.best_validation_loss);
  EXPECT_EQ(back.losses.values, s.losses.values);
  EXPECT_EQ(back.norms.values, s.norms.values);
  EXPECT_EQ(back.norms.count, 200);
}

TEST(RunState, DamageIsAnError) {
  EXPECT_THROW(train::run_state_from_json("{}"), Error);
  EXPECT_THROW(train::run_state_from_json("no json"), Error);
}

}  // namespace
}  // namespace hawser
