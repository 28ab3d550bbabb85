// Tests the times of two overlapped instructions, with numbers that a reader can add up.
#include "engine/plan/overlap_times.h"

#include <gtest/gtest.h>

namespace hawser::plan {
namespace pair_times_test {

constexpr bool kBeside = true, kInLane = true;

/// Times in the order of DualPipeV. The backward sends row gradients in 4, computes experts' backward in 5,
/// returns rows in 6, and computes attention's backward in 7. The forward computes attention in 8, exchanges
/// counts in 1, sends rows in 3, computes experts in 9, and returns rows in 2.
PairHalf backward() { return {{{0, 4, kBeside, kInLane}, {5, 6, kBeside, kInLane}}, 7}; }
PairHalf forward() {
  return {{{8, 1, !kBeside, kInLane}, {0, 3, kBeside, kInLane}, {9, 2, kBeside, kInLane}}, 0.5};
}

TEST(PairTimes, WhatTravelsIsHiddenBehindTheOtherHalf) {
  const PairTimes t = overlap_times(backward(), forward());
  EXPECT_EQ(t.exchanging, 1) << "counts";
  EXPECT_EQ(t.all, 5 + 7 + 8 + 9 + 0.5 + 1);
  EXPECT_EQ(t.beside, 4 + 6 + 3 + 2);
}

TEST(PairTimes, WhoeverHasNothingElseToDoWaits) {
  PairHalf slow = backward();
  slow.steps[0].exchange = 20;
  // Counts queue after the gradients until 20, and arrive at 21. Everything else is hidden.
  const PairTimes t = overlap_times(slow, forward());
  EXPECT_EQ(t.all, 21 + 5 + 9 + 7 + 0.5);
  EXPECT_EQ(t.exchanging, 21 - 8);
  const PairTimes alone = overlap_times(backward(), {{}, 1});
  EXPECT_EQ(alone.all, 4 + 5 + 6 + 7) << "1 is computed beside the 4";
  EXPECT_EQ(alone.exchanging, 3 + 6);
  EXPECT_EQ(alone.beside, 1);
}

/// Exchanges of another kind are awaited at once and do not queue. Two that begin together are awaited
/// together.
TEST(PairTimes, OtherExchangesAreAwaitedAtOnce) {
  const PairHalf first{{{1, 10, kBeside, kInLane}, {0, 2, kBeside, kInLane}}, 1};
  const PairHalf second{{{3, 4, !kBeside, !kInLane}}, 2};
  const PairTimes t = overlap_times(first, second);
  EXPECT_EQ(t.all, 13 + 1);
  EXPECT_EQ(t.exchanging, 4 + (13 - 10));
  EXPECT_EQ(t.beside, 12 - 3);
}

}  // namespace pair_times_test
}  // namespace hawser::plan
