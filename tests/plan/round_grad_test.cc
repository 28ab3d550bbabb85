// Tests the serial schedule with gradients that are stored narrower than the backward writes them.
#include <gtest/gtest.h>

#include <string>

#include "engine/plan/serial.h"
#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace round_grad_test {

using testing::small_sizes;
using testing::text_of;

/// Each backward writes to a window, from which its gradients are rounded and added to the earlier ones. For
/// a tied table, the head's part comes first, then that of the look-ups.
TEST(SerialPlan, RoundsEachBackwardsGradientsFromAWindow) {
  Sizes sizes = small_sizes(1, true);
  sizes.lookup_gradient = 0, sizes.one_tied_gradient = true;
  for (BlockState& block : sizes.state) block.gradient_window = 2 * block.gradients;
  const std::string text = text_of(train_plan(sizes, 2, Accumulation::kInPlace)), first = "LOSS 2 1",
                    last = "GRAD_NORM";
  EXPECT_EQ(text.substr(text.find(first), text.find(last) - text.find(first)),
            "LOSS 2 1: x2.1 batch.1 scalars weights.2 weights.0 -> losses.1 dx.1 gradient_window.2.1 "
            "head_gradient_window.0.1\n"
            "ROUND_GRAD 2 1: gradient_window.2.1 +> gradients.2\n"
            "ROUND_HEAD_GRAD 0 1: head_gradient_window.0.1 +> gradients.0\n"
            "BACKWARD 1 1: x1.1 saved1.1 batch.1 weights.1 -> dx.1 gradient_window.1.1\n"
            "ROUND_GRAD 1 1: gradient_window.1.1 +> gradients.1\n"
            "BACKWARD 0 1: batch.1 -> dx.1 gradient_window.0.1\n"
            "ROUND_GRAD 0 1: gradient_window.0.1 +> gradients.0\n");
  EXPECT_NE(text.find("ROUND_GRAD 0 0: gradient_window.0.0 -> gradients.0\n"), std::string::npos);
}

/// A block whose kernels round what they write has no window.
TEST(SerialPlan, RoundsNothingOfABlockWithoutAWindow) {
  Sizes sizes = small_sizes(1, false);
  for (BlockState& block : sizes.state) block.gradient_window = 2 * block.gradients;
  sizes.state[1].gradient_window = 0;
  const std::string text = text_of(train_plan(sizes, 1, Accumulation::kInPlace)), first = "LOSS 2 0",
                    last = "GRAD_NORM";
  EXPECT_EQ(text.substr(text.find(first), text.find(last) - text.find(first)),
            "LOSS 2 0: x2.0 batch.0 scalars weights.2 -> losses.0 dx.0 gradient_window.2.0\n"
            "ROUND_GRAD 2 0: gradient_window.2.0 -> gradients.2\n"
            "BACKWARD 1 0: x1.0 saved1.0 batch.0 weights.1 -> dx.0 gradients.1\n"
            "BACKWARD 0 0: batch.0 -> dx.0 gradient_window.0.0\n"
            "ROUND_GRAD 0 0: gradient_window.0.0 -> gradients.0\n");
}

}  // namespace round_grad_test
}  // namespace hawser::plan
