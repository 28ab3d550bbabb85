// Tests the plans for a backend whose blocks leave their last residual sum to the instruction that reads it.
#include <gtest/gtest.h>

#include <string>

#include "engine/plan/serial.h"
#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace deferred_sums_test {

using testing::finished;
using testing::small_sizes;
using testing::text_of;

/// The costs of the forms differ, so that the FLOPs of an instruction identify its form.
Sizes deferring_sizes(int64_t layers, bool saves_middle = true, int32_t frozen = 0) {
  Sizes sizes = small_sizes(layers, false, frozen);
  sizes.branch = sizes.residual / 2;
  sizes.saves_middle = saves_middle;
  for (size_t form = 0; form < sizes.block_forward_deferring.size(); ++form)
    sizes.block_forward_deferring[form].assign(static_cast<size_t>(layers),
                                               {100, 700, 1e9 * static_cast<double>(form + 1)});
  sizes.loss_of_sum = {300, 0, 5e9}, sizes.loss_eval_of_sum = {150, 0, 6e9};
  return sizes;
}

std::string forward_of(const Plan& plan) {
  const std::string text = text_of(plan);
  const size_t begin = text.find("FORWARD 0 0"), end = text.find("BACKWARD");
  return text.substr(begin, end - begin);
}

double flops_of(const Plan& plan, Op op, int32_t block) {
  for (const Instruction& n : plan.instructions)
    if (n.op == op && n.block == block) return n.flops;
  return -1;
}

TEST(DeferredSums, AreLeftToTheNextBlockAndToTheHead) {
  const Plan plan = finished(train_plan(deferring_sizes(3), 1, Accumulation::kInPlace));
  EXPECT_EQ(forward_of(plan),
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> branch1.0 saved1.0\n"
            "FORWARD 2 0: saved1.0 branch1.0 batch.0 weights.2 -> x2.0 branch1.0 saved2.0\n"
            "FORWARD 3 0: saved2.0 branch1.0 batch.0 weights.3 -> x3.0 branch1.0 saved3.0\n"
            "LOSS 4 0: saved3.0 branch1.0 batch.0 scalars weights.4 -> x4.0 losses.0 dx.0 gradients.4\n");
  EXPECT_EQ(flops_of(plan, Op::kForward, 1), 2e9);  // leaves its sum
  EXPECT_EQ(flops_of(plan, Op::kForward, 2), 3e9);  // both
  EXPECT_EQ(flops_of(plan, Op::kLoss, 4), 5e9);
}

/// x' is then in the slot of the sum, which replaces it.
TEST(DeferredSums, AreInPlaceIfTheirAddendIsRecomputed) {
  EXPECT_EQ(forward_of(finished(train_plan(deferring_sizes(2, false), 1, Accumulation::kInPlace))),
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 branch1.0 saved1.0\n"
            "FORWARD 2 0: x2.0 branch1.0 batch.0 weights.2 -> x2.0 x3.0 branch1.0 saved2.0\n"
            "LOSS 3 0: x3.0 branch1.0 batch.0 scalars weights.3 -> x3.0 losses.0 dx.0 gradients.3\n");
}

/// The last block of a chunk computes its own sum, because the next stage or chunk needs the residual stream.
TEST(DeferredSums, EndWithTheChunk) {
  Sizes sizes = deferring_sizes(3);
  Stage stage{{{0, 3, Neighbour::kNone, Neighbour::kNext}},
              {{Part::kForward, 0, 0}, {Part::kBackward, 0, 0}}};
  for (const size_t elsewhere : {3, 4}) sizes.state[elsewhere] = {};
  const Plan plan = finished(train_plan(sizes, stage, 1, Accumulation::kInPlace));
  EXPECT_EQ(forward_of(plan),
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> branch1.0 saved1.0\n"
            "FORWARD 2 0: saved1.0 branch1.0 batch.0 weights.2 -> x2.0 x3.0 saved2.0\n"
            "~ SEND_F -1 0: x3.0 ->\n");
  EXPECT_EQ(flops_of(plan, Op::kForward, 2), 1e9);  // computes the sum below, and its own

  const Stage chunks{
      {{0, 2, Neighbour::kNone, Neighbour::kHere}, {2, 4, Neighbour::kHere, Neighbour::kNone}},
      {{Part::kForward, 0, 0}, {Part::kForward, 1, 0}, {Part::kBackward, 1, 0}, {Part::kBackward, 0, 0}}};
  EXPECT_EQ(forward_of(finished(train_plan(deferring_sizes(2), chunks, 1, Accumulation::kInPlace))),
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "FORWARD 2 0: x2.0 batch.0 weights.2 -> branch2.0 saved2.0\n"
            "LOSS 3 0: saved2.0 branch2.0 batch.0 scalars weights.3 -> x3.0 losses.0 dx1.0 gradients.3\n");
}

/// The memory of a block without a backward is scratch that lives for one instruction only.
TEST(DeferredSums, BeginWithTheLowestBlockThatHasABackward) {
  EXPECT_EQ(forward_of(finished(train_plan(deferring_sizes(3, true, 2), 1, Accumulation::kInPlace))),
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> x2.0 saved1.0\n"
            "FORWARD 2 0: x2.0 batch.0 weights.2 -> branch2.0 saved2.0\n"
            "FORWARD 3 0: saved2.0 branch2.0 batch.0 weights.3 -> x3.0 branch2.0 saved3.0\n"
            "LOSS 4 0: saved3.0 branch2.0 batch.0 scalars weights.4 -> x4.0 losses.0 dx.0 gradients.4\n");
}

/// LOGPROBS is the first to read the sum, and LOSS reads x again.
TEST(DeferredSums, AreComputedOnceByTheHead) {
  Sizes sizes = deferring_sizes(1);
  sizes.weighs_targets = true;
  const Plan plan = finished(train_plan(sizes, 1, Accumulation::kInPlace));
  EXPECT_EQ(forward_of(plan),
            "FORWARD 0 0: batch.0 weights.0 -> x1.0\n"
            "FORWARD 1 0: x1.0 batch.0 weights.1 -> branch1.0 saved1.0\n"
            "LOGPROBS 2 0: saved1.0 branch1.0 batch.0 weights.2 -> x2.0 losses.0\n"
            "OBJECTIVE -1 0: losses.0 -> batch.0\n"
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradients.2\n");
  EXPECT_EQ(flops_of(plan, Op::kLogprobs, 2), 6e9);
  EXPECT_EQ(flops_of(plan, Op::kLoss, 2), 3e9);
}

/// Nothing is saved in evaluation, so each block computes its own sum.
TEST(DeferredSums, AreNotUsedInEvaluation) {
  EXPECT_EQ(text_of(finished(eval_plan(deferring_sizes(2)))),
            text_of(finished(eval_plan(small_sizes(2, false)))));
}

}  // namespace deferred_sums_test
}  // namespace hawser::plan
