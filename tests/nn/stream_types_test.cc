// Tests modules on three backends. The first also stores the rounded gradient of the residual stream, which
// changes no bit. The branches of the second write bf16, which adds two roundings per branch. The blocks of
// the third leave their last sum to the next norm, which changes no bit. On all, the stream may be bf16.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/stream_in_parts.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace stream_types_test {

Gradients run(const ModelVariant& variant, const kernels::KernelTable& kernels, nn::WeightTypes type,
              const nn::BackwardForm& form = {}) {
  VariantStep step(variant, {}, kernels, type, form);
  return step.run();
}

double calls_of(const WorkList& list, const std::string& kernel) {
  double calls = 0;
  for (const KernelCalls& c : list)
    if (c.kernel == kernel) calls += static_cast<double>(c.calls);
  return calls;
}

double bytes_of(const WorkList& list, const std::string& kernel) {
  double bytes = 0;
  for (const KernelCalls& c : list)
    if (c.kernel == kernel) bytes += c.bytes;
  return bytes;
}

class StreamTypes : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(StreamTypes, RoundedGradientsChangeNoBit) {
  const kernels::KernelTable& kernels = stream_in_parts<false, true>();
  for (const bool halves : {false, true}) {
    const nn::BackwardForm form{.halves = halves};
    EXPECT_EQ(run(GetParam(), kernels, DType::kBf16, form),
              run(GetParam(), stream_parts::base(), DType::kBf16, form));
  }
}

/// A block that gets the rounded gradient rounds nothing.
TEST_P(StreamTypes, RoundedGradientsReplaceThePassThatRounds) {
  const nn::ModelConfig model = resolve_variant(GetParam()).model;
  const kernels::KernelTable& kernels = stream_in_parts<false, true>();
  for (const DType type : {DType::kF32, DType::kBf16}) {
    const VariantStep with(GetParam(), {}, kernels, type),
        without(GetParam(), {}, stream_parts::base(), type);
    const bool rounded = type == DType::kBf16 && !model.post_norm && model.dropout_residual == 0;
    EXPECT_EQ(calls_of(with.costs().round_dx.work.calls, "residual_backward"), rounded ? 1 : 0);
    for (size_t l = 0; l < with.costs().block_backward.size(); ++l) {
      const WorkList &has = with.costs().block_backward[l].work.calls,
                     &had = without.costs().block_backward[l].work.calls;
      if (!rounded) {
        EXPECT_EQ(has, had);
        continue;
      }
      EXPECT_EQ(calls_of(has, "residual_backward"), calls_of(had, "residual_backward") - 2);
      const double elements = static_cast<double>(GetParam().micro_batch * GetParam().sequence * model.width);
      EXPECT_EQ(bytes_of(has, "norm_backward"), bytes_of(had, "norm_backward") + 2 * 2 * elements);
    }
  }
}

/// The test overwrites arrays that are recomputed, including x' if it is one of them.
TEST_P(StreamTypes, DeferredSumsChangeNoBit) {
  const kernels::KernelTable& kernels = stream_in_parts<false, false, true>();
  const nn::BackwardForm forms[] = {{}, {.halves = true}, {.remakes = nn::RecomputeSet::all()}};
  for (const DType type : {DType::kF32, DType::kBf16})
    for (const nn::BackwardForm& form : forms)
      EXPECT_EQ(run(GetParam(), kernels, type, form), run(GetParam(), stream_parts::base(), type, form));
}

/// A norm that computes a sum reads x' and the branch, and writes x. It does not read x again.
TEST_P(StreamTypes, DeferredSumsSaveAPass) {
  const nn::ModelConfig model = resolve_variant(GetParam()).model;
  const VariantStep step(GetParam(), {}, stream_in_parts<false, false, true>(), DType::kF32);
  const nn::ModelCosts& costs = step.costs();
  EXPECT_EQ(costs.branch > 0, !model.post_norm);
  if (model.post_norm) return;
  const double elements = static_cast<double>(GetParam().micro_batch * GetParam().sequence * model.width);
  const auto bytes = [](const nn::CallCost& c) {
    return bytes_of(c.work.calls, "residual_forward") + bytes_of(c.work.calls, "norm_forward");
  };
  for (size_t l = 0; l < costs.block_forward.size(); ++l) {
    const nn::CallCost& whole = costs.block_forward[l];
    EXPECT_EQ(bytes(costs.block_forward_deferring[1][l]), bytes(whole) - 12 * elements);
    EXPECT_EQ(bytes(costs.block_forward_deferring[0][l]), bytes(whole) + (l > 0 ? 8 * elements : 0));
    EXPECT_EQ(bytes(costs.block_forward_deferring[2][l]), bytes(whole) - (l > 0 ? 4 : 12) * elements);
    for (const std::vector<nn::CallCost>& forms : costs.block_forward_deferring)
      EXPECT_EQ(forms[l].flops, whole.flops);
  }
  const double alone =
      model.dropout_residual > 0 ? 12 : 8;  // the head computes a sum with dropout separately
  EXPECT_EQ(bytes(costs.loss_of_sum), bytes(costs.loss) + alone * elements);
}

double norm_of(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

/// Returns the largest |a - b| / |b| of all parameters. Gradients that consist only of rounding errors,
/// such as those of key biases, are compared with the largest gradient.
double distance(const Gradients& a, const Gradients& b) {
  double largest = 0, worst = 0;
  for (const auto& [name, values] : b) largest = std::max(largest, norm_of(values));
  for (const auto& [name, values] : b) {
    std::vector<float> difference = a.at(name);
    for (size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    worst = std::max(worst, norm_of(difference) / (norm_of(values) + 1e-2 * largest));
  }
  return worst;
}

/// A branch rounds once more. Measured over all variants, the distance is 0.7 to 1.8 times that of f32
/// branches; the median is 1.0.
TEST_P(StreamTypes, NarrowBranchesKeepGradientsNearThoseOfF32) {
  const kernels::KernelTable& kernels = stream_in_parts<true, true>();
  EXPECT_EQ(run(GetParam(), kernels, DType::kF32), run(GetParam(), stream_parts::base(), DType::kF32));
  const Gradients exact = run(GetParam(), stream_parts::base(), DType::kF32),
                  wide = run(GetParam(), stream_parts::base(), DType::kBf16),
                  narrow = run(GetParam(), kernels, DType::kBf16);
  const double before = distance(wide, exact), after = distance(narrow, exact);
  std::printf("  distance from f32: %.5f with f32 branches, %.5f with bf16 branches\n", before, after);
  EXPECT_LT(after, 2.5 * before);
}

/// The residual stream is stored in bf16 as well.
const nn::WeightTypes kNarrowStream(DType::kBf16, DType::kF32, {}, DType::kBf16);

/// A sum is rounded once, whichever kernel computes it, and a recomputed norm reads the rounded sum.
TEST_P(StreamTypes, NarrowStreamsHaveTheSameBitsInAllForms) {
  const kernels::KernelTable &each_own = stream_in_parts<true, true, false>(),
                             &deferring = stream_in_parts<true, true, true>();
  const Gradients want = run(GetParam(), each_own, kNarrowStream);
  for (const kernels::KernelTable* kernels : {&each_own, &deferring})
    for (const nn::BackwardForm& form : {nn::BackwardForm{},
                                         {.halves = true},
                                         {.remakes = nn::RecomputeSet::all()},
                                         {.remakes = {.qkv = true, .attention = true, .mlp_hidden = true}}})
      EXPECT_EQ(run(GetParam(), *kernels, kNarrowStream, form), want);
}

/// A layer rounds two sums more. Measured over all variants, the distance is 0.5 to 2.3 times that with a
/// stream of f32; the median is 1.2.
TEST_P(StreamTypes, NarrowStreamsKeepGradientsNearThoseOfF32) {
  const kernels::KernelTable& kernels = stream_in_parts<true, true, true>();
  const Gradients exact = run(GetParam(), stream_parts::base(), DType::kF32);
  const Gradients wide = run(GetParam(), kernels, DType::kBf16),
                  narrow = run(GetParam(), kernels, kNarrowStream);
  const double before = distance(wide, exact), after = distance(narrow, exact);
  std::printf("  distance from f32: %.5f with a stream of f32, %.5f with one of bf16\n", before, after);
  EXPECT_NE(narrow, wide);
  EXPECT_LT(after, 3 * before);
}

/// A block saves x' in 2 bytes per element. Norms and sums read and write 2 bytes less for each access.
TEST_P(StreamTypes, NarrowStreamsSaveReadAndWriteLess) {
  const nn::ModelConfig model = resolve_variant(GetParam()).model;
  const kernels::KernelTable& kernels = stream_in_parts<true, true, false>();
  const VariantStep with(GetParam(), {}, kernels, kNarrowStream),
      without(GetParam(), {}, kernels, DType::kBf16);
  const double elements = static_cast<double>(GetParam().micro_batch * GetParam().sequence * model.width);
  const auto less = [&](const std::vector<nn::CallCost>& wide, const std::vector<nn::CallCost>& narrow,
                        size_t l, const char* kernel) {
    return bytes_of(wide[l].work.calls, kernel) - bytes_of(narrow[l].work.calls, kernel);
  };
  const nn::ModelCosts &wide = without.costs(), &narrow = with.costs();
  for (size_t l = 0; l < wide.block_forward.size(); ++l) {
    EXPECT_EQ(less(wide.block_forward, narrow.block_forward, l, "norm_forward"), 3 * 2 * elements);
    EXPECT_EQ(less(wide.block_forward, narrow.block_forward, l, "residual_forward"), 2 * 2 * elements);
    EXPECT_EQ(less(wide.block_backward, narrow.block_backward, l, "norm_backward"), 2 * 2 * elements);
    EXPECT_NEAR(static_cast<double>(wide.block_forward[l].saved - narrow.block_forward[l].saved),
                2 * elements, 64);
  }
}

/// Branches write 2 bytes per element, and the sums read 2, unless experts, an adapter or the second
/// projection of latent attention add to the output.
TEST_P(StreamTypes, NarrowBranchesReadAndWriteLess) {
  const nn::ModelConfig model = resolve_variant(GetParam()).model;
  const VariantStep with(GetParam(), {}, stream_in_parts<true, false>(), DType::kBf16),
      without(GetParam(), {}, stream_parts::base(), DType::kBf16);
  const double elements = static_cast<double>(GetParam().micro_batch * GetParam().sequence * model.width);
  for (size_t l = 0; l < with.costs().block_forward.size(); ++l) {
    const bool sparse = model.is_sparse(static_cast<int64_t>(l));
    const auto saved = [&](const std::vector<nn::CallCost>& from, const std::vector<nn::CallCost>& to,
                           const char* kernel) {
      return bytes_of(from[l].work.calls, kernel) - bytes_of(to[l].work.calls, kernel);
    };
    if (model.adapter.on() || model.post_norm) continue;
    EXPECT_EQ(saved(without.costs().block_forward, with.costs().block_forward, "residual_forward"),
              sparse ? 0 : 2 * elements);
    EXPECT_EQ(saved(without.costs().block_forward, with.costs().block_forward, "norm_forward"), 2 * elements);
    const bool two_add =
        model.is_latent() && model.latent.q_rank == 0;  // to the gradient of attention's input
    const double branches = (sparse ? 0 : 1) + (two_add ? 0 : 1);
    EXPECT_EQ(saved(without.costs().block_backward, with.costs().block_backward, "norm_backward"),
              branches * 2 * elements);
  }
}

/// The rows of the second chunk are not at the beginning of the sum's arrays.
TEST(StreamTypesOfHeads, ComputeDeferredSumsInChunks) {
  const ModelVariant variant{
      "chunks",
      R"({"vocab_size": 23, "context": 40, "layers": 1, "width": 16, "heads": 4, "position": "learned"})", 16,
      1, 40};
  for (const DType type : {DType::kF32, DType::kBf16})
    EXPECT_EQ(run(variant, stream_in_parts<true, false, true>(), type),
              run(variant, stream_in_parts<true, false, false>(), type));
}

INSTANTIATE_TEST_SUITE_P(Variants, StreamTypes, ::testing::ValuesIn(model_variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace stream_types_test
}  // namespace hawser::testing
