// Tests the bytes that a pipeline stage sends and receives. The gradient of the residual stream may be wider.
#include <gtest/gtest.h>

#include <map>

#include "engine/plan/serial.h"
#include "tests/plan/plan_text.h"

namespace hawser::plan {
namespace stream_bytes_test {

using testing::finished;
using testing::small_sizes;

TEST(StreamBytes, OfTheStreamAndOfItsGradientAreSentAndReceived) {
  Sizes sizes = small_sizes(3, false);
  sizes.dx = 2 * sizes.residual;
  const Stage stage{{{1, 3, Neighbour::kPrevious, Neighbour::kNext}},
                    {{Part::kForward, 0, 0}, {Part::kBackward, 0, 0}}};
  for (const size_t elsewhere : {0, 3, 4}) sizes.state[elsewhere] = {};
  const Plan plan = finished(train_plan(sizes, stage, 1, Accumulation::kInPlace));
  std::map<Op, int64_t> bytes;
  for (const Instruction& n : plan.instructions) {
    if (n.op == Op::kSendF || n.op == Op::kSendB) bytes[n.op] = n.sent_bytes;
    if (n.op == Op::kRecvF || n.op == Op::kRecvB) bytes[n.op] = plan.slot(n[Operand::kReceived]).bytes;
  }
  EXPECT_EQ(bytes, (std::map<Op, int64_t>{{Op::kRecvF, sizes.residual},
                                          {Op::kSendF, sizes.residual},
                                          {Op::kRecvB, sizes.dx},
                                          {Op::kSendB, sizes.dx}}));
}

}  // namespace stream_bytes_test
}  // namespace hawser::plan
