// Tests the parts of a plan that can be submitted to a device as one piece.
#include "engine/plan/segments.h"

#include <gtest/gtest.h>

#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace segments_test {

using testing::finished;
using testing::small_sizes;

/// Returns a name such as "FORWARD..JOIN_HEAD_GRAD" for each segment.
std::string names(const Plan& plan, size_t begin, size_t end) {
  std::string text;
  for (const Segment& s : segments(plan, begin, end)) {
    EXPECT_TRUE(begin <= s.begin && s.begin < s.end && s.end <= end);
    text += std::string(text.empty() ? "" : " ") + op_name(plan.instructions[s.begin].op) + ".." +
            op_name(plan.instructions[s.end - 1].op);
  }
  return text;
}

TEST(Segments, OfAStepAreItsMicroBatchesTheNormsAndTheUpdate) {
  const Plan plan = finished(train_plan(small_sizes(2, true), 2, Accumulation::kInPlace));
  EXPECT_EQ(names(plan, 0, plan.commit), "FORWARD..BACKWARD FORWARD..JOIN_HEAD_GRAD GRAD_NORM..GRAD_NORM");
  EXPECT_EQ(names(plan, plan.commit, plan.instructions.size()), "OPTIMIZER_STEP..OPTIMIZER_STEP");
  EXPECT_EQ(segments(plan, 0, plan.commit)[0], (Segment{3, 10}));
}

TEST(Segments, OfAPlanAreThoseOfItsTwoPhases) {
  const Plan plan = finished(train_plan(small_sizes(2, true), 2, Accumulation::kInPlace));
  ASSERT_EQ(plan.segments.size(), 4u);
  EXPECT_EQ(plan.segments.front(), (Segment{3, 10}));
  EXPECT_EQ(plan.segments.back(), (Segment{plan.commit, plan.instructions.size()}));
  EXPECT_EQ(plan.no_graphs, NoGraphs::kNone);
}

TEST(Segments, LeaveToTheHostWhatItLoadsCountsAndReads) {
  const Plan eval = finished(eval_plan(small_sizes(2, false))),
             logits = finished(logits_plan(small_sizes(2, false)));
  EXPECT_EQ(names(eval, 0, eval.commit), "FORWARD..EVAL_LOSS");
  EXPECT_EQ(names(logits, 0, logits.commit), "FORWARD..FORWARD");
}

/// A transfer follows the loss, and the second backward must wait for it.
TEST(Segments, EndAtTransfersAndBeginAnewWhereOneIsAwaited) {
  Plan plan = finished(train_plan(small_sizes(2, false), 1, Accumulation::kInPlace));
  Instruction transfer = plan.instructions[5];
  transfer.op = Op::kReduceGrad, transfer.lane = Lane::kDataParallel;
  plan.instructions.insert(plan.instructions.begin() + 6, transfer);
  for (const size_t i : {8, 9}) plan.instructions[i].waits_for[Lane::kDataParallel] = 6;
  const std::vector<Segment> found = segments(plan, 0, plan.commit);
  EXPECT_EQ(found[0], (Segment{2, 6}));
  EXPECT_EQ(found[1], (Segment{7, 8}));
  EXPECT_EQ(found[2], (Segment{8, 10})) << "what the first waited for is done: the next need not";
}

/// The host takes part within block 1, in forward and in backward.
TEST(Segments, AreCutAroundABlockThatMeetsTheHost) {
  Sizes sizes = small_sizes(2, false);
  sizes.block_forward[0].host = sizes.block_backward[0].host = true;
  const Plan plan = finished(train_plan(sizes, 1, Accumulation::kInPlace));
  EXPECT_EQ(names(plan, 0, plan.commit),
            "FORWARD..FORWARD FORWARD..BACKWARD BACKWARD..BACKWARD GRAD_NORM..GRAD_NORM");
  for (const Segment& s : segments(plan, 0, plan.commit))
    for (size_t i = s.begin; i < s.end; ++i) EXPECT_FALSE(plan.instructions[i].host) << i;
}

}  // namespace segments_test
}  // namespace hawser::plan
