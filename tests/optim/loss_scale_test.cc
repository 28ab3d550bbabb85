// The loss scale: when it grows and shrinks, exactly, and what a checkpoint restores.
#include "engine/optim/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hawser::optim {
namespace loss_scale_test {

LossScaleConfig config() {
  LossScaleConfig c;
  c.initial = 1024, c.growth_every = 3, c.backoff = 4, c.patience = 2, c.minimum = 16;
  return c;
}

TEST(LossScale, DoublesAfterEnoughFiniteStepsInARow) {
  LossScale scale(config(), true);
  for (int i = 0; i < 2; ++i) scale.finite();
  EXPECT_EQ(scale.scale(), 1024);
  scale.overflowed();  // begins the count anew
  for (int i = 0; i < 2; ++i) scale.finite();
  EXPECT_EQ(scale.scale(), 1024);
  scale.finite();
  EXPECT_EQ(scale.scale(), 2048);
  for (int i = 0; i < 3; ++i) scale.finite();
  EXPECT_EQ(scale.scale(), 4096);
}

TEST(LossScale, StopsGrowingAtTheLargest) {
  LossScaleConfig c = config();
  c.initial = LossScale::kLargest / 2;
  LossScale scale(c, true);
  for (int i = 0; i < 30; ++i) scale.finite();
  EXPECT_EQ(scale.scale(), LossScale::kLargest);
}

TEST(LossScale, ShrinksAfterEveryPatienceOverflowsInARowDownToTheMinimum) {
  LossScale scale(config(), true);
  scale.overflowed();
  scale.finite();  // begins the count anew
  scale.overflowed();
  EXPECT_EQ(scale.scale(), 1024);
  scale.overflowed();
  EXPECT_EQ(scale.scale(), 256);
  scale.overflowed();
  EXPECT_EQ(scale.scale(), 256);
  scale.overflowed();
  EXPECT_EQ(scale.scale(), 64);
  EXPECT_TRUE(scale.can_shrink());
  scale.overflowed(), scale.overflowed();
  EXPECT_EQ(scale.scale(), 16);
  EXPECT_FALSE(scale.can_shrink());
  scale.overflowed(), scale.overflowed();
  EXPECT_EQ(scale.scale(), 16);
}

TEST(LossScale, NeverFallsBelowTheMinimum) {
  LossScaleConfig c = config();
  c.patience = 1, c.minimum = 512;
  LossScale scale(c, true);
  scale.overflowed();
  EXPECT_EQ(scale.scale(), 512);
}

TEST(LossScale, AFixedOneNeverChanges) {
  LossScaleConfig c = config();
  c.fixed = 128;
  LossScale scale(c, true);
  for (int i = 0; i < 10; ++i) scale.finite();
  for (int i = 0; i < 10; ++i) scale.overflowed();
  EXPECT_EQ(scale.scale(), 128);
  EXPECT_FALSE(scale.can_shrink());
  scale.resume(LossScaleState{4096, 1, 1});
  EXPECT_EQ(scale.scale(), 128);
}

TEST(LossScale, ResumesAtTheVeryStep) {
  LossScale one(config(), true);
  one.finite(), one.finite();
  LossScale other(config(), true);
  other.overflowed();
  other.resume(one.saved());
  one.finite(), other.finite();
  EXPECT_EQ(other.scale(), 2048);
  EXPECT_EQ(one.saved(), other.saved());
  other.resume(std::nullopt);  // of another precision
  EXPECT_EQ(other.saved(), LossScaleState{1024});
}

TEST(LossScale, OtherPrecisionsHaveNone) {
  LossScale scale(config(), false);
  for (int i = 0; i < 10; ++i) scale.finite();
  EXPECT_EQ(scale.scale(), 1);
  EXPECT_FALSE(scale.saved().has_value());
  EXPECT_FALSE(scale.overflows(std::nan(""), 1));
}

TEST(LossScale, OverflowsAreLossesOrNormsThatAreNotFinite) {
  const LossScale scale(config(), true);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(scale.overflows(1, 1));
  EXPECT_TRUE(scale.overflows(std::nan(""), 1));
  EXPECT_TRUE(scale.overflows(1, kInfinity));
}

}  // namespace loss_scale_test
}  // namespace hawser::optim
