// Tests that a backward in two passes is bit-identical to one in a single pass, on every variant, and takes
// the memory that the dry run measured.
#include <gtest/gtest.h>

#include "tests/harness/kernel_levels.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace halves_test {

class Halves : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(Halves, HaveTheBitsOfAWholeBackward) {
  for (const kernels::KernelTable* kernels : kernel_tables())
    for (const DType type : {DType::kF32, DType::kBf16}) {
      VariantStep whole(GetParam(), {}, *kernels, type),
          halves(GetParam(), {}, *kernels, type, {.halves = true});
      EXPECT_EQ(whole.run(), halves.run());
    }
}

/// The costs add up, because the input pass also reads the arrays that are kept for the weight pass.
TEST_P(Halves, TakeTheWorkOfAWholeBackward) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const VariantStep step(GetParam(), {}, kernels, DType::kF32, {.halves = true});
  const nn::ModelCosts& costs = step.costs();
  for (size_t l = 0; l < costs.block_backward.size(); ++l) {
    const double whole = costs.block_backward[l].flops, first = costs.block_backward_input[l].flops,
                 second = costs.block_backward_weight[l].flops;
    EXPECT_NEAR(first + second, whole, 1e-3 * whole);
    EXPECT_GT(second, GetParam().adapter.empty() ? 0.2 * whole : -1);  // frozen weights have no weight pass
    EXPECT_LT(costs.block_forward[l].kept, costs.block_forward[l].saved);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Halves, ::testing::ValuesIn(model_variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace halves_test
}  // namespace hawser::testing
