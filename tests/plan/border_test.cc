// Border test: which transfers may still run when the gradient phase of a step ends, and what the simulator
// makes of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/parallel/early_fetches.h"
#include "engine/parallel/offload_state.h"
#include "engine/plan/segments.h"
#include "tests/plan/plan_text.h"
#include "tests/plan/simulator_case.h"

namespace hawser::plan {
namespace border_test {

Plan with_state_on_disk(int64_t prefetch, bool early) {
  Plan plan = train_plan(testing::small_sizes(6, false), 2, Accumulation::kInPlace);
  parallel::offload_optimizer_state(&plan, Space::kDisk, prefetch);
  if (early) parallel::fetch_early(&plan);
  finish(&plan);
  return plan;
}

size_t last_forward(const Plan& plan) {
  size_t at = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (plan.instructions[i].op == Op::kForward) at = i;
  return at;
}

TEST(Border, OnlyFetchesForTheUpdateCross) {
  for (const int64_t prefetch : {1, 2, 9}) {
    const Plan late = with_state_on_disk(prefetch, false), plan = with_state_on_disk(prefetch, true);
    EXPECT_FALSE(late.has_crossing());
    EXPECT_EQ(late.instructions.size(), plan.instructions.size());
    EXPECT_EQ(late.peak_bytes, plan.peak_bytes) << "prefetch " << prefetch;
    const size_t crossing = plan.commit - late.commit;
    EXPECT_GT(crossing, 0u);
    EXPECT_LE(crossing, static_cast<size_t>(2 * (prefetch + 1)));  // two moments of each block
    size_t found = 0;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      EXPECT_EQ(plan.crosses(i), i < plan.commit && is_move(plan.instructions[i].op));
      if (!plan.crosses(i)) continue;
      ++found;
      EXPECT_GT(i, last_forward(plan));
    }
    EXPECT_EQ(found, crossing);
    const LaneMarks over = plan.over_before(plan.commit);
    EXPECT_EQ(over[Lane::kFetchState], plan.crosses_from[Lane::kFetchState] - 1);
    EXPECT_EQ(over[Lane::kDataParallel], static_cast<int32_t>(plan.commit) - 1);
    EXPECT_EQ(plan.over_before(0), LaneMarks());
  }
}

/// An update that waits for a FETCH of the gradient phase begins a segment, so that the wait comes before it.
TEST(Border, ASegmentBeginsAtTheWaitForIt) {
  const Plan plan = with_state_on_disk(1, true);
  for (const Segment& segment : plan.segments)
    for (size_t i = segment.begin + 1; i < segment.end; ++i)
      EXPECT_LT(plan.instructions[i].waits_for[Lane::kFetchState],
                plan.instructions[segment.begin].waits_for[Lane::kFetchState] + 1)
          << i;
}

TEST(Border, NothingOfTheGradientPhaseIsBehindIt) {
  Plan plan = with_state_on_disk(1, true);
  const auto at = static_cast<size_t>(plan.crosses_from[Lane::kFetchState]);
  Instruction other = plan.instructions[at];
  other.op = Op::kOffload;
  std::swap(other.uses[0].slot, other.uses[1].slot);
  plan.instructions.insert(plan.instructions.begin() + static_cast<std::ptrdiff_t>(at) + 1, other);
  ++plan.commit;
  EXPECT_THROW(assign_border(&plan), Error);
}

/// The update phase begins while the transfer runs, and only what waits for it waits.
TEST(Border, TheSimulatorLetsItRun) {
  for (const bool crosses : {false, true}) {
    Case c;
    c.compute(1, -1, Op::kBackward);                             // 0..1
    const int32_t fetch = c.transfer(6, -1, Lane::kFetchState);  // 1..7
    c.meeting(1, 2);                                             // sums 1..3, runs 3..4
    c.commit_here();
    const int32_t first = c.compute(1), second = c.compute(1, fetch);
    if (crosses) c.plan.crosses_from[Lane::kFetchState] = fetch;
    const Timeline line = c.run();
    EXPECT_EQ(line.times[static_cast<size_t>(fetch)].end, 7);
    EXPECT_EQ(line.times[static_cast<size_t>(first)].begin, crosses ? 4 : 7);
    EXPECT_EQ(line.times[static_cast<size_t>(second)].begin, crosses ? 7 : 8);
    EXPECT_EQ(c.overlap().makespan, crosses ? 8 : 9);
  }
}

}  // namespace border_test
}  // namespace hawser::plan
