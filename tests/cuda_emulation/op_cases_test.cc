// Runs the op-case table through our CUDA kernels, emulated: every row against the same reference and within
// the same tolerance as on the CPU, with the same bits for every order in which blocks and threads may run.
#include <gtest/gtest.h>

#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/run_op_case.h"
#include "tests/harness/test_stream.h"

namespace hawser::testing {
namespace op_cases_test {

using cuda_emulation::Order;

std::vector<std::vector<char>> run(const OpCase& c, Order order) {
  std::vector<std::vector<char>> got;
  cuda_emulation::run_in_order(
      order, [&](Stream& stream) { got = run_fast(c, kernels::cuda::cuda_kernels(), stream); });
  return got;
}

class EmulatedOpCases : public ::testing::TestWithParam<std::string> {};

TEST_P(EmulatedOpCases, AgreeWithTheReferenceInEveryOrderOfThreads) {
  for (const OpCase* c : emulated_cases_of(GetParam())) {
    SCOPED_TRACE(c->op + "/" + c->name);
    const int64_t before = cuda_emulation::launches();
    const auto got = run(*c, Order::kAscending);
    EXPECT_GT(cuda_emulation::launches(), before) << "no kernel ran";
    expect_close(*c, got, run_reference(*c));
    EXPECT_TRUE(run(*c, Order::kShuffled) == got) << "other bits in another order";
  }
}

/// Updates on the host and on a GPU may follow each other (offload, checkpoints), so both round alike.
TEST(EmulatedOptimizers, HaveTheBitsOfTheCpu) {
  for (const char* const op : {"adamw", "sgd", "lion"})
    for (const OpCase* c : emulated_cases_of(op)) {
      SerialStream cpu;
      EXPECT_TRUE(run(*c, Order::kAscending) == run_fast(*c, *kernel_tables().back(), cpu))
          << op << "/" << c->name;
    }
}

INSTANTIATE_TEST_SUITE_P(Table, EmulatedOpCases, ::testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param; });

}  // namespace op_cases_test
}  // namespace hawser::testing
