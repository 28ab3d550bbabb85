// Tests of MLPs that work on some rows at a time (RecomputeSet::rows): gradients have the bits of all rows at
// once, on every variant, and the workspace is what the dry run measured and the closed form gives.
#include <gtest/gtest.h>

#include "engine/nn/tiled_sums.h"
#include "tests/harness/epilogues_in_parts.h"
#include "tests/harness/kernel_levels.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace rows_test {

using nn::RecomputeSet;

/// What blocks recompute, with tiles of `rows`.
std::vector<RecomputeSet> sets_of(int64_t rows) {
  std::vector<RecomputeSet> sets = {{}, {.mlp_hidden = true}, RecomputeSet::all()};
  for (RecomputeSet& set : sets) set.rows = rows;
  return sets;
}

/// Returns the name of the first gradient that differs; "" if none does. NaN differs from itself.
std::string first_difference(const Gradients& a, const Gradients& b) {
  if (a.size() != b.size()) return "number of gradients";
  for (const auto& [name, values] : a)
    if (b.at(name) != values) return name;
  return "";
}

void expect_bits(const ModelVariant& variant, const kernels::KernelTable& kernels, DType type,
                 const std::vector<int64_t>& tiles) {
  const Gradients expected = VariantStep(variant, {}, kernels, type).run();
  for (const int64_t rows : tiles)
    for (const RecomputeSet& set : sets_of(rows))
      for (const bool halves : {false, true})
        EXPECT_EQ(first_difference(VariantStep(variant, {}, kernels, type, {halves, set}).run(), expected),
                  "")
            << variant.name << " on " << kernels.name << ", " << rows << " rows at a time, halves " << halves
            << ", hidden recomputed " << set.mlp_hidden;
}

/// Variants without DoRA, which rules refuse together with rows.
std::vector<ModelVariant> variants() {
  std::vector<ModelVariant> all = model_variants();
  std::erase_if(all, [](const ModelVariant& v) { return v.name.find("dora") != v.name.npos; });
  return all;
}

ModelVariant variant_named(const std::string& name) {
  for (const ModelVariant& v : variants())
    if (v.name == name) return v;
  ADD_FAILURE() << "no variant " << name;
  return {};
}

class Rows : public ::testing::TestWithParam<ModelVariant> {};

/// Forward has tiles of 1 and 5 of 18 rows; backward has one tile.
TEST_P(Rows, HaveTheBitsOfAllRowsAtOnce) {
  for (const kernels::KernelTable* kernels : {kernel_tables().front(), kernel_tables().back()})
    for (const DType type : {DType::kF32, DType::kBf16})
      expect_bits(GetParam(), *kernels, type, {1, 5, 1000});
}

INSTANTIATE_TEST_SUITE_P(Variants, Rows, ::testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

/// A backward of several tiles: sums have three blocks or more. Of 1,161 rows the last tile has two blocks,
/// which a product of its rows alone would divide elsewhere; of 1,710 rows it has a part of one.
TEST(RowsOfSeveralTiles, HaveTheSameBits) {
  for (const char* name : {"gpt2_tanh", "bias_everywhere", "bias_gate_only", "gemma3_documents",
                           "odd_sizes_rotary", "adapter_mixed", "adapter_dropout_joint"}) {
    for (const int64_t rows : {1161, 1710}) {
      ModelVariant v = variant_named(name);
      v.micro_batch = rows / v.sequence;
      for (const DType type : {DType::kF32, DType::kBf16})
        expect_bits(v, *kernel_tables().back(), type, {7, 900});
    }
  }
}

/// A backend that fuses the activation saves it, or recomputes it with the hidden array.
TEST(RowsOfSeveralTiles, HaveTheSameBitsWithFusedActivations) {
  ModelVariant v = variant_named("gpt2_tanh");
  v.micro_batch = 190;
  for (const DType type : {DType::kF32, DType::kBf16}) expect_bits(v, epilogues_in_parts(), type, {7, 900});
}

/// So many rows are summed in segments.
TEST(RowsOfLongSums, HaveTheSameBits) {
  for (const char* name : {"gpt2_tanh", "adapter_dropout_joint"}) {
    ModelVariant v = variant_named(name);
    v.micro_batch = 1351;  // 12,159 rows
    const auto blocks = kernel_tables().back()->matmul_sum_blocks(DType::kF32, v.micro_batch * v.sequence);
    ASSERT_LT(blocks.segment, v.micro_batch * v.sequence);
    expect_bits(v, *kernel_tables().back(), DType::kF32, {500, 100000});
  }
}

}  // namespace rows_test
}  // namespace hawser::testing
