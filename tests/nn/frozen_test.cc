// Tests frozen parameters, on every variant: they get no gradient (there is no memory for one), the gradients
// of the other parameters are bit-identical to those with nothing frozen, and the dry run measures what such
// a step takes.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/harness/kernel_levels.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace frozen_test {

/// Sets of patterns. A variant skips sets that do not apply to it.
const std::vector<std::vector<std::string>> kSets = {{"embedding.*"},
                                                     {"embedding.tokens.weight"},
                                                     {"blocks.0.*"},
                                                     {"embedding.*", "blocks.0.*"},
                                                     {"*norm.weight"},
                                                     {"*.bias"},
                                                     {"blocks.*.weight"},
                                                     {"blocks.*.attention.?.weight"},
                                                     {"blocks.*.mlp.*.weight", "final_norm.*"},
                                                     {"head.weight"},
                                                     {"embedding.*", "blocks.*"}};

/// True if every pattern matches a parameter that would be trained, and a trainable parameter remains.
bool means_something(const nn::ParameterTable& table, const std::vector<std::string>& patterns) {
  size_t frozen = 0;
  std::vector<bool> matched(patterns.size());
  for (const nn::Parameter& p : table.all()) {
    if (!p.trainable) continue;  // a router's bias
    bool hit = false;
    for (size_t i = 0; i < patterns.size(); ++i)
      if (fnmatch(patterns[i].c_str(), p.name.c_str(), 0) == 0) hit = matched[i] = true;
    frozen += hit ? 1 : 0;
  }
  return frozen < table.all().size() && std::find(matched.begin(), matched.end(), false) == matched.end();
}

class Frozen : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(Frozen, TakesNoGradientAndChangesNobodyElses) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  int sets = 0;
  for (const DType type : {DType::kF32, DType::kBf16}) {
    VariantStep whole(GetParam(), {}, kernels, type);
    const Gradients expected = whole.run();
    for (const std::vector<std::string>& patterns : kSets) {
      if (!means_something(whole.model().table(), patterns)) continue;
      SCOPED_TRACE(patterns[0]);
      VariantStep step(GetParam(), patterns, kernels, type);
      const Gradients gradients = step.run();
      EXPECT_FALSE(step.wrote_frozen());
      EXPECT_LT(gradients.size(), expected.size());
      EXPECT_FALSE(gradients.empty());
      for (const auto& [name, values] : gradients)
        EXPECT_EQ(std::memcmp(values.data(), expected.at(name).data(), values.size() * 4), 0) << name;
      ++sets;
    }
  }
  EXPECT_GE(sets, 10);
}

TEST_P(Frozen, WeightsCostNoProductForTheirGradient) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const VariantStep whole(GetParam(), {}, kernels, DType::kF32);
  const double rows = static_cast<double>(GetParam().micro_batch * GetParam().sequence);
  for (const std::vector<std::string>& patterns : kSets) {
    if (!means_something(whole.model().table(), patterns)) continue;
    SCOPED_TRACE(patterns[0]);
    const VariantStep step(GetParam(), patterns, kernels, DType::kF32);
    const nn::ModelConfig& m = step.model().config();
    std::vector<double> frozen(static_cast<size_t>(m.layers) + 2);
    for (const nn::Parameter& p : step.model().table().all())
      if (!p.trainable && p.block > 0)
        frozen[static_cast<size_t>(p.block)] += static_cast<double>(multiplied_elements(p, m));
    if (m.tied_head && !step.model().trains_shared_table())
      frozen.back() += static_cast<double>(m.vocab_size * m.width);
    for (size_t l = 0; l < step.costs().block_backward.size(); ++l) {
      EXPECT_DOUBLE_EQ(step.costs().block_backward[l].flops,
                       whole.costs().block_backward[l].flops - 2 * rows * frozen[l + 1]);
      EXPECT_EQ(step.costs().block_backward[l].saved, whole.costs().block_backward[l].saved);
    }
    EXPECT_DOUBLE_EQ(step.costs().loss.flops, whole.costs().loss.flops - 2 * rows * frozen.back());
  }
}

TEST_P(Frozen, BlocksBelowTheFirstThatTrainsAreKnown) {
  const auto model = [&](const std::vector<std::string>& frozen) {
    return nn::Model(resolve_variant(GetParam()).model, true, frozen).first_trainable_block();
  };
  const int64_t layers = resolve_variant(GetParam()).model.layers;
  EXPECT_EQ(model({}), 0);
  EXPECT_EQ(model({"embedding.*"}), 1);
  EXPECT_EQ(model({"embedding.*", "blocks.0.*"}), 2);
  EXPECT_EQ(model({"embedding.*", "blocks.*"}), layers + 1);
  EXPECT_EQ(model({"blocks.*"}), 0);
}

INSTANTIATE_TEST_SUITE_P(Variants, Frozen, ::testing::ValuesIn(whole_variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace frozen_test
}  // namespace hawser::testing
