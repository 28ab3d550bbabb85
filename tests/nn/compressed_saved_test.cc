// Tests that saved activations in records of fp8 take the memory that the closed form and the dry run say,
// that neither a backward in two passes nor recompute of other arrays changes a bit, and that gradients stay
// within an envelope.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/kernel_levels.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace compressed_saved_test {

constexpr nn::CompressSet kAll{true, true, true};
constexpr nn::CompressSet kSets[] = {{.qkv = true}, {.attention = true}, {.mlp_hidden = true}, kAll};

bool has_dense(const nn::ModelConfig& m) { return !m.is_sparse(0); }

double length(const std::vector<float>& x) {
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> d(a.size());
  for (size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return length(d);
}

/// A variant whose layers compress what a config may name: MLPs of sparse layers stay as they are.
class CompressedSaved : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(CompressedSaved, HaveTheSameBitsInTwoPassesAndOnEveryRun) {
  for (const kernels::KernelTable* kernels : {kernel_tables().front(), kernel_tables().back()})
    for (const DType type : {DType::kF32, DType::kBf16}) {  // some of these models overflow a half
      const auto run = [&](bool halves, const nn::CompressSet& compress, const nn::RecomputeSet& remakes) {
        return VariantStep(GetParam(), {}, *kernels, type, {halves, remakes, compress}).run();
      };
      for (const nn::CompressSet& set : kSets) EXPECT_EQ(run(true, set, {}), run(false, set, {}));
      EXPECT_EQ(run(false, {.mlp_hidden = true}, {.qkv = true, .attention = true}),
                run(false, {.mlp_hidden = true}, {}));
      EXPECT_EQ(run(true, {.attention = true}, {.qkv = true}), run(false, {.attention = true}, {}));
      EXPECT_EQ(run(true, {.qkv = true, .attention = true}, {.mlp_hidden = true}),
                run(false, {.qkv = true, .attention = true}, {}));
    }
}

/// The closed form in block.h: for n elements of a row, 129 bytes for each 128 begun instead of e n.
TEST_P(CompressedSaved, TakeWhatTheClosedFormSays) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    const auto cost = [&](const nn::CompressSet& compress) {
      return VariantStep(GetParam(), {}, kernels, type, {true, {}, compress}).costs().block_forward[0];
    };
    const VariantStep step(GetParam(), {}, kernels, type);
    const nn::ModelConfig& m = step.model().config();
    const int64_t rows = GetParam().micro_batch * GetParam().sequence, e = dtype_bytes(type);
    const auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    const auto less = [&](int64_t n) {
      return aligned(e * rows * n) - aligned(rows * ((n + 127) / 128) * 129);
    };
    int64_t qkv = less((m.heads + 2 * m.kv_heads) * m.head_dim);
    if (m.qk_norm) qkv += less((m.heads + m.kv_heads) * m.head_dim);
    if (m.is_latent())
      qkv = less(m.latent.q_rank + m.latent.kv_rank + m.latent.rope_dim) + less(m.heads * m.head_dim) +
            less(m.heads * (m.head_dim + m.latent.value_dim));
    const int64_t attention = less(m.heads * m.value_dim());
    const int64_t hidden = has_dense(m) ? less(m.mlp_width * (nn::is_gated(m.mlp) ? 2 : 1)) : 0;
    EXPECT_EQ(cost({}).saved - cost({.qkv = true}).saved, qkv);
    EXPECT_EQ(cost({}).saved - cost({.attention = true}).saved, attention);
    EXPECT_EQ(cost({}).kept - cost({.attention = true}).kept, attention);
    EXPECT_EQ(cost({}).saved - cost({.mlp_hidden = true}).saved, hidden);
    EXPECT_EQ(cost({}).saved - cost(kAll).saved, qkv + attention + hidden);
  }
}

/// bf16 rounds the same activations, and more, to 8 significant bits; E4M3 has 4. To first order its effect
/// is 16 times that of bf16. Twice that is allowed, because the exponentials of attention are not linear: 32
/// times the distance between the gradients of a step in bf16 and in f32, plus an 8th of the gradient's
/// length, for tensors that bf16 hardly changes.
TEST_P(CompressedSaved, GradientsStayInTheEnvelope) {
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const Gradients plain = VariantStep(GetParam(), {}, kernels, DType::kF32).run();
  const Gradients rounded = VariantStep(GetParam(), {}, kernels, DType::kBf16).run();
  double all = 0;
  for (const auto& [name, g] : plain) all += length(g) * length(g);
  all = std::sqrt(all);
  for (const nn::CompressSet& set : kSets) {
    const Gradients got = VariantStep(GetParam(), {}, kernels, DType::kF32, {false, {}, set}).run();
    const VariantStep step(GetParam(), {}, kernels, DType::kF32);
    double changed = 0, worst = 0;
    std::string where;
    for (const auto& [name, g] : plain) {
      const double d = distance(got.at(name), g);
      changed += d;
      const double allowed = 32 * distance(rounded.at(name), g) + (length(g) + 0.1 * all) / 8;
      if (d / allowed > worst) worst = d / allowed, where = name;
    }
    EXPECT_LE(worst, 1) << where;
    const bool compresses = set.qkv || set.attention || has_dense(step.model().config());
    EXPECT_EQ(changed > 0, compresses);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, CompressedSaved, ::testing::ValuesIn(model_variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace compressed_saved_test
}  // namespace hawser::testing
