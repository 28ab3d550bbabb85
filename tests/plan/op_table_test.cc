// Tests the table of ops: a plan is rejected if an instruction has an operand that its op's row does not
// list, or lacks one that the row requires. Operands are found by name, whatever precedes them.
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace op_table_test {

using testing::finished;
using testing::small_sizes;

Plan unfinished() { return train_plan(small_sizes(2, true), 2, Accumulation::kInPlace); }

Instruction& first_of(Plan* plan, Op op) {
  for (Instruction& n : plan->instructions)
    if (n.op == op) return n;
  throw std::out_of_range("no such instruction");
}

/// Returns the error of finish after `change` to the plan's first instruction of that op.
template <typename Change>
std::string refusal(Op op, Change change) {
  Plan plan = unfinished();
  change(&first_of(&plan, op));
  try {
    finish(&plan);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInternal);
    return e.message();
  }
  return "";
}

TEST(OpTable, RefuseAnOperandThatTheRowLacks) {
  const auto change = [](Instruction* n) { n->read(Operand::kMaster, 0); };
  EXPECT_EQ(refusal(Op::kForward, change),
            "plan train: instruction 3 (FORWARD) reads 1 slots as \"master\"; its row in plan/op_table.h "
            "says none");
  const std::string words = refusal(Op::kGradNorm, [](Instruction* n) { n->write(Operand::kGradients, 0); });
  EXPECT_NE(words.find("writes 1 slots as \"gradients\"; its row in plan/op_table.h says none"),
            std::string::npos)
      << "what may be read may not therefore be written: " << words;
}

TEST(OpTable, RefuseToDoWithoutAnOperandThatTheRowDemands) {
  for (const Op op : {Op::kForward, Op::kLoss, Op::kBackward}) {
    const std::string words = refusal(op, [](Instruction* n) {
      std::erase_if(n->uses, [](const Use& use) { return use.operand == Operand::kBatch; });
    });
    EXPECT_NE(words.find("reads 0 slots as \"batch\"; its row in plan/op_table.h says one"),
              std::string::npos)
        << words;
  }
}

TEST(OpTable, GradNormReadsGradientsOfItsBlockOrWithoutOneTheSums) {
  const auto without = [](Instruction* n, Operand operand) {
    std::erase_if(n->uses, [&](const Use& use) { return use.operand == operand && !use.written; });
  };
  EXPECT_NE(refusal(Op::kGradNorm, [&](Instruction* n) { without(n, Operand::kGradients); })
                .find("reads 0 slots as \"gradients\"; its row in plan/op_table.h says one"),
            std::string::npos);
  EXPECT_NE(refusal(Op::kGradNorm, [](Instruction* n) { n->read(Operand::kNorm, 0); })
                .find("reads 1 slots as \"norm\"; its row in plan/op_table.h says none"),
            std::string::npos);
  EXPECT_NE(refusal(Op::kGradNorm, [](Instruction* n) { n->block = -1; })
                .find("reads 1 slots as \"gradients\"; its row in plan/op_table.h says none"),
            std::string::npos);
  const auto of_the_sums = [&](Instruction* n) { without(n, Operand::kGradients), n->block = -1; };
  EXPECT_NE(refusal(Op::kGradNorm, of_the_sums)
                .find("reads 0 slots as \"norm\"; its row in plan/op_table.h says one"),
            std::string::npos);
  EXPECT_NE(refusal(Op::kGradNorm, [](Instruction* n) { n->sent_bytes = 1; }).find("sends bytes"),
            std::string::npos);
}

TEST(OpTable, RefuseTwoOfWhatThereIsOne) {
  const std::string words = refusal(Op::kLoss, [](Instruction* n) { n->write(Operand::kDx, 0); });
  EXPECT_NE(words.find("(LOSS) writes 2 slots as \"dx\"; its row in plan/op_table.h says one"),
            std::string::npos)
      << words;
}

TEST(OpTable, RefuseCostsAndLanesThatTheRowLacks) {
  const auto words = [](Op op, auto change) { return refusal(op, change); };
  EXPECT_NE(words(Op::kOptimizerStep, [](Instruction* n) { n->flops = 1; }).find("has FLOPs"),
            std::string::npos);
  EXPECT_NE(words(Op::kOptimizerStep, [](Instruction* n) { n->sent_bytes = 1; }).find("sends bytes"),
            std::string::npos);
  EXPECT_NE(words(Op::kJoinHeadGrad, [](Instruction* n) { n->scratch = 0; }).find("has a workspace"),
            std::string::npos);
  EXPECT_NE(words(Op::kForward, [](Instruction* n) { n->lane = Lane::kXToNext; }).find("wrong kind of lane"),
            std::string::npos);
  EXPECT_EQ(words(Op::kForward, [](Instruction*) {}), "");
}

TEST(OpTable, OperandsAreFoundByNameWhateverElseIsThere) {
  Instruction n;
  n.read(Operand::kX, -1), n.read(Operand::kSaved, 3), n.read(Operand::kBatch, 4), n.write(Operand::kDx, 5);
  n.read(Operand::kWeights, 6), n.read(Operand::kWeights, 7);
  EXPECT_EQ(n[Operand::kX], -1) << "what has no slot is not there";
  EXPECT_EQ(n[Operand::kSaved], 3);
  EXPECT_EQ(n[Operand::kBatch], 4);
  EXPECT_EQ(n[Operand::kWeights], 6);
  EXPECT_EQ(n.all(Operand::kWeights), (std::vector<SlotId>{6, 7}));
  EXPECT_EQ(n.reads(), (std::vector<SlotId>{3, 4, 6, 7}));
  EXPECT_EQ(n.writes(), (std::vector<SlotId>{5}));
}

}  // namespace op_table_test
}  // namespace hawser::plan
