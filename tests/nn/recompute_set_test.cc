// Tests that the arrays that a block recomputes are bit-identical to those that it discarded, on every
// variant, with a backward in one pass and in two, and that they take the memory that the dry run measured.
#include <gtest/gtest.h>

#include "tests/harness/kernel_levels.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace recompute_set_test {

constexpr nn::RecomputeSet kPolicies[] = {
    {.mlp_hidden = true},
    {.qkv = true},
    {.attention = true},
    {.qkv = true, .attention = true},
    {.qkv = true, .attention = true, .mlp_hidden = true},
    nn::RecomputeSet::all(),
};

class RecomputeSet : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(RecomputeSet, HaveTheBitsOfWhatWasNotKept) {
  for (const kernels::KernelTable* kernels : {kernel_tables().front(), kernel_tables().back()})
    for (const DType type : {DType::kF32, DType::kBf16}) {
      const Gradients expected = VariantStep(GetParam(), {}, *kernels, type).run();
      for (const nn::RecomputeSet& remakes : kPolicies)
        for (const bool halves : {false, true})
          EXPECT_EQ(VariantStep(GetParam(), {}, *kernels, type, {halves, remakes}).run(), expected);
    }
}

/// Sizes follow the closed form in block.h.
TEST_P(RecomputeSet, TakeWhatTheyLeaveOut) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  for (const DType type : {DType::kF32, DType::kBf16}) {
    const auto cost = [&](const nn::RecomputeSet& remakes) {
      return VariantStep(GetParam(), {}, kernels, type, {false, remakes}).costs().block_forward[0];
    };
    const VariantStep step(GetParam(), {}, kernels, type);
    const nn::ModelConfig& m = step.model().config();
    const int64_t rows = GetParam().micro_batch * GetParam().sequence, e = dtype_bytes(type);
    const auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    int64_t qkv = aligned(e * rows * (m.heads + 2 * m.kv_heads) * m.head_dim);
    if (m.qk_norm)
      qkv += aligned(e * rows * (m.heads + m.kv_heads) * m.head_dim) + aligned(4 * rows * m.heads) +
             aligned(4 * rows * m.kv_heads);
    if (m.is_latent()) {
      const nn::LatentConfig& l = m.latent;
      qkv = aligned(e * rows * (l.q_rank + l.kv_rank + l.rope_dim)) +
            aligned(e * rows * m.heads * m.head_dim) +
            aligned(e * rows * m.heads * (m.head_dim + l.value_dim)) +
            aligned(4 * rows) * (l.q_rank > 0 ? 2 : 1);
    }
    EXPECT_EQ(cost({.qkv = true}).remade, qkv);
    EXPECT_EQ(cost({.attention = true}).remade,
              aligned(e * rows * m.heads * m.value_dim()) + aligned(4 * rows * m.heads));
    if (m.is_sparse(0)) {  // tests/nn/dry_run_test.cc has its closed form
      EXPECT_GT(cost({.mlp_hidden = true}).remade, 0);
    } else {
      EXPECT_EQ(cost({.mlp_hidden = true}).remade,
                aligned(e * rows * m.mlp_width * (nn::is_gated(m.mlp) ? 2 : 1)));
    }
    for (const nn::RecomputeSet& remakes : kPolicies)
      EXPECT_EQ(cost(remakes).saved + cost(remakes).remade, cost({}).saved);
    EXPECT_EQ(cost(nn::RecomputeSet::all()).saved, 0);
  }
}

/// Recompute leaves out the last product and sum, unless a post-norm follows them.
TEST_P(RecomputeSet, ComputeNoMoreThanTheyMust) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const auto flops = [&](const nn::RecomputeSet& remakes) {
    return VariantStep(GetParam(), {}, kernels, DType::kF32, {false, remakes})
        .costs()
        .block_recompute[0]
        .flops;
  };
  const VariantStep step(GetParam(), {}, kernels, DType::kF32);
  const nn::ModelConfig& m = step.model().config();
  if (m.is_sparse(0)) {  // without the last product of each expert, a third of it if gated
    const double all = flops(nn::RecomputeSet::all()), whole = step.costs().block_forward[0].flops;
    EXPECT_LT(all, 0.95 * whole);
    EXPECT_LT(flops({.mlp_hidden = true}), all);
    return;
  }
  const double rows = static_cast<double>(GetParam().micro_batch * GetParam().sequence),
               product = 2 * rows * static_cast<double>(m.width * m.mlp_width),
               forward = step.costs().block_forward[0].flops;
  if (m.adapter.on()) {
    EXPECT_LT(flops(nn::RecomputeSet::all()), m.post_norm ? 1.001 * forward : forward);
    return;
  }
  EXPECT_NEAR(flops(nn::RecomputeSet::all()), forward - (m.post_norm ? 0 : product), 0.02 * forward);
  EXPECT_NEAR(flops({.mlp_hidden = true}), product * (nn::is_gated(m.mlp) ? 2 : 1), 0.02 * forward);
}

INSTANTIATE_TEST_SUITE_P(Variants, RecomputeSet, ::testing::ValuesIn(model_variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace recompute_set_test
}  // namespace hawser::testing
