// Tests that deadlocks of pipeline stages are detected before they run.
#include "engine/plan/deadlock.h"

#include <gtest/gtest.h>

namespace hawser::testing {
namespace deadlock_test {

using namespace plan;

Instruction message(Op op, Lane lane) {
  Instruction n;
  n.op = op, n.lane = lane;
  return n;
}

Instruction compute(Op op, Lane waits_for, int32_t transfer) {
  Instruction n;
  n.op = op;
  if (transfer >= 0) n.waits_for[waits_for] = transfer;
  return n;
}

Plan plan_of(std::vector<Instruction> instructions) {
  Plan plan;
  plan.instructions = std::move(instructions);
  plan.commit = plan.instructions.size();
  return plan;
}

/// Plans a second stage that answers the message of the first.
Plan second() {
  return plan_of({message(Op::kRecvF, Lane::kXFromPrevious), compute(Op::kLoss, Lane::kXFromPrevious, 0),
                  message(Op::kSendB, Lane::kDxToPrevious)});
}

TEST(Flow, ComesToItsEnd) {
  const Plan first =
      plan_of({compute(Op::kForward, Lane::kCompute, -1), message(Op::kSendF, Lane::kXToNext),
               message(Op::kRecvB, Lane::kDxFromNext), compute(Op::kBackward, Lane::kDxFromNext, 2)});
  const Plan last = second();
  EXPECT_EQ(find_deadlock({&first, &last}), "");
}

TEST(Flow, NamesTheCircle) {
  const Plan first =
      plan_of({message(Op::kRecvB, Lane::kDxFromNext), compute(Op::kBackward, Lane::kDxFromNext, 0),
               compute(Op::kForward, Lane::kCompute, -1), message(Op::kSendF, Lane::kXToNext)});
  const Plan last = second();
  const std::string stop = find_deadlock({&first, &last});
  EXPECT_NE(stop.find("stage 0 at 1 BACKWARD waits for dx_from_next"), std::string::npos) << stop;
  EXPECT_NE(stop.find("stage 1 at 1 LOSS waits for x_from_previous"), std::string::npos) << stop;
}

/// Both stages have queued everything, but one sent message is never received.
TEST(Flow, SeesMessagesThatNobodyTakes) {
  const Plan first = plan_of({message(Op::kSendF, Lane::kXToNext), message(Op::kSendF, Lane::kXToNext)});
  const Plan last = plan_of({message(Op::kRecvF, Lane::kXFromPrevious)});
  EXPECT_NE(find_deadlock({&first, &last}).find("x_to_next has 1"), std::string::npos);
}

/// The first stage waits for the second one before it sends. The plans end here, or continue.
TEST(Flow, DeadlocksEarlyIfAllStagesStopBeforeTheEndsOfTheirFirstParts) {
  const Plan first =
      plan_of({message(Op::kRecvB, Lane::kDxFromNext), compute(Op::kBackward, Lane::kDxFromNext, 0),
               compute(Op::kForward, Lane::kCompute, -1), message(Op::kSendF, Lane::kXToNext)});
  const Plan last = second();
  EXPECT_TRUE(deadlocks_early({&first, &last}, {2, 2}));
  EXPECT_TRUE(deadlocks_early({&first, &last}, {4, 3}));
  EXPECT_FALSE(deadlocks_early({&first, &last}, {1, 2})) << "the first stage may send later";
  EXPECT_FALSE(deadlocks_early({&first, &last}, {2, 1})) << "the second stage may send later";
}

/// A collective of the world needs all stages.
TEST(Flow, WaitsForTheWorld) {
  const Plan first = plan_of({compute(Op::kCountTokens, Lane::kCompute, -1)});
  const Plan last =
      plan_of({message(Op::kRecvF, Lane::kXFromPrevious), compute(Op::kForward, Lane::kXFromPrevious, 0),
               compute(Op::kCountTokens, Lane::kCompute, -1)});
  EXPECT_NE(find_deadlock({&first, &last}), "");
}

}  // namespace deadlock_test
}  // namespace hawser::testing
