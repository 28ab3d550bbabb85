// Tests vocabulary tables that are followed by rows of zeros, as on GPUs. Every variant's step is
// bit-identical to the step without these rows, and writes only zeros there.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/kernel_levels.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace padded_table_test {

class PaddedTable : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(PaddedTable, HasTheGradientsOfOneWithout) {
  for (const kernels::KernelTable* kernels : kernel_tables())
    for (const DType type : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(std::string(kernels->name) + " " + dtype_name(type));
      VariantStep padded(GetParam(), {}, *kernels, type, {}, 64);
      EXPECT_EQ(padded.run(), VariantStep(GetParam(), {}, *kernels, type).run());
      const nn::Parameter& tokens = padded.model().table().at("embedding.tokens.weight");
      EXPECT_EQ((tokens.local_shape[0] + tokens.zeros / tokens.shape[1]) % 64, 0);
      for (const nn::Parameter& p : padded.model().table().all()) {
        const std::vector<float> behind = padded.gradient_behind(p);
        EXPECT_TRUE(std::all_of(behind.begin(), behind.end(), [](float v) { return v == 0; })) << p.name;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Variants, PaddedTable, ::testing::ValuesIn(model_variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace padded_table_test
}  // namespace hawser::testing
