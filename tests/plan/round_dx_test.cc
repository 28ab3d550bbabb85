// Tests the schedule of a backend whose backwards also write the rounded gradient of the residual stream.
#include <gtest/gtest.h>

#include <string>

#include "engine/plan/serial.h"
#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace round_dx_test {

using testing::finished;
using testing::small_sizes;
using testing::text_of;

Sizes rounding_sizes(int64_t layers, int32_t frozen = 0) {
  Sizes sizes = small_sizes(layers, false, frozen);
  sizes.rounded_dx = sizes.residual / 2;
  return sizes;
}

std::string backward_of(const Plan& plan) {
  const std::string text = text_of(plan);
  const size_t begin = text.find("FORWARD 2 0"), end = text.find("GRAD_NORM");
  return text.substr(begin, end - begin);
}

/// Only the gradient that LOSS wrote is rounded by a separate instruction.
TEST(RoundDx, ComesOnceBetweenLossAndTheFirstBackward) {
  EXPECT_EQ(backward_of(finished(train_plan(rounding_sizes(2), 1, Accumulation::kInPlace))),
            "FORWARD 2 0: x2.0 batch.0 weights.2 -> x3.0 saved2.0\n"
            "LOSS 3 0: x3.0 batch.0 scalars weights.3 -> losses.0 dx.0 gradients.3\n"
            "ROUND_DX -1 0: dx.0 -> rounded_dx.0\n"
            "BACKWARD 2 0: x2.0 saved2.0 batch.0 weights.2 -> dx.0 rounded_dx.0 gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 rounded_dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0\n");
}

/// A stage sends and receives only the f32 gradient. The receive is queued before the forward.
TEST(RoundDx, FollowsAReceivedGradient) {
  Sizes sizes = rounding_sizes(3);
  Stage stage{{{0, 3, Neighbour::kNone, Neighbour::kNext}},
              {{Part::kForward, 0, 0}, {Part::kBackward, 0, 0}}};
  for (const size_t elsewhere : {3, 4}) sizes.state[elsewhere] = {};
  const Plan plan = finished(train_plan(sizes, stage, 1, Accumulation::kInPlace));
  EXPECT_NE(text_of(plan).find("~ RECV_B -1 0: -> dx.0\n"), std::string::npos);
  EXPECT_EQ(backward_of(plan),
            "FORWARD 2 0: x2.0 batch.0 weights.2 -> x3.0 saved2.0\n"
            "~ SEND_F -1 0: x3.0 ->\n"
            "ROUND_DX -1 0: dx.0 -> rounded_dx.0\n"
            "BACKWARD 2 0: x2.0 saved2.0 batch.0 weights.2 -> dx.0 rounded_dx.0 gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 rounded_dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradients.0\n");
}

/// The lower chunk reads the gradient that the upper chunk on the same rank rounded.
TEST(RoundDx, IsNotRepeatedBetweenChunksOfARank) {
  const Stage stage{
      {{0, 2, Neighbour::kNone, Neighbour::kHere}, {2, 4, Neighbour::kHere, Neighbour::kNone}},
      {{Part::kForward, 0, 0}, {Part::kForward, 1, 0}, {Part::kBackward, 1, 0}, {Part::kBackward, 0, 0}}};
  const std::string text = text_of(finished(train_plan(rounding_sizes(2), stage, 1, Accumulation::kInPlace)));
  EXPECT_EQ(text.find("ROUND_DX"), text.rfind("ROUND_DX"));
  EXPECT_NE(text.find("BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx1.0 rounded_dx1.0 gradients.1\n"),
            std::string::npos)
      << text;
}

TEST(RoundDx, IsLeftOutIfNoBlockHasABackward) {
  const std::string text = text_of(finished(train_plan(rounding_sizes(1, 2), 1, Accumulation::kInPlace)));
  EXPECT_EQ(text.find("ROUND_DX"), std::string::npos) << text;
}

}  // namespace round_dx_test
}  // namespace hawser::plan
