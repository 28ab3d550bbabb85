// Tests the content check: a plan is rejected if it reads a slot that no instruction wrote, or if it reduces
// the gradients of a micro-batch after another micro-batch has overwritten them.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace contents_test {

using testing::small_sizes;

std::string refusal(Plan plan) {
  try {
    finish(&plan);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInternal);
    return e.message();
  }
  return "";
}

TEST(Contents, RefuseToReadATransientSlotThatNothingWrote) {
  Plan plan = train_plan(small_sizes(2, false), 1, Accumulation::kInPlace);
  const SlotId slot = plan.add_slot({"nothing", Category::kActivations, 64});
  Instruction n;
  n.op = Op::kSendF, n.lane = Lane::kXToNext, n.micro_batch = 0;
  n.read(Operand::kSent, slot);
  plan.instructions.insert(plan.instructions.begin() + 4, n);
  EXPECT_EQ(
      refusal(plan),
      "plan train: instruction 4 (SEND_F) reads nothing as \"sent\", which no instruction before it writes");
}

/// Inserts a reduction of the head's gradients of `micro_batch` before instruction `at`.
Plan with_reduction(int32_t micro_batch, size_t at) {
  Plan plan = train_plan(small_sizes(1, false), 2, Accumulation::kFresh);
  const SlotId slot = find_state(plan, Role::kGradients, 2);
  Instruction n;
  n.op = Op::kReduceGrad, n.lane = Lane::kDataParallel, n.micro_batch = micro_batch, n.bucket = 0;
  n.read(Operand::kSent, slot), n.write(Operand::kReceived, slot);
  plan.instructions.insert(plan.instructions.begin() + static_cast<std::ptrdiff_t>(at), n);
  return plan;
}

TEST(Contents, RefuseToReduceAMicroBatchThatAnotherHasOverwritten) {
  const Plan plan = train_plan(small_sizes(1, false), 2, Accumulation::kFresh);
  std::vector<size_t> losses;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (plan.instructions[i].op == Op::kLoss) losses.push_back(i);
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_EQ(refusal(with_reduction(0, losses[0] + 1)), "");
  EXPECT_EQ(refusal(with_reduction(0, losses[1])), "");
  const std::string words = refusal(with_reduction(0, losses[1] + 1));
  EXPECT_NE(
      words.find("(REDUCE_GRAD) reduces the gradients of micro-batch 0 in gradients.2, which holds those of "
                 "micro-batch 1"),
      std::string::npos)
      << words;
}

}  // namespace contents_test
}  // namespace hawser::plan
