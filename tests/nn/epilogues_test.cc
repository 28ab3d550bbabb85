// Tests modules on a backend with fused GELU and bias gradients: the gradients are bit-identical to those of
// separate kernels, with fewer calls, whatever is frozen.
#include <gtest/gtest.h>

#include "tests/harness/epilogues_in_parts.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace epilogues_test {

/// Counts calls of a table: products with an epilogue, and calls of the kernels that an epilogue replaces.
struct Calls {
  int64_t gelu = 0, gelu_gradients = 0, bias_gradients = 0, activations = 0, column_sums = 0;
};
Calls calls;
const kernels::KernelTable* counted_base = nullptr;

kernels::KernelTable counted(const kernels::KernelTable& base) {
  counted_base = &base;
  calls = {};
  kernels::KernelTable table = base;
  table.matmul = [](const kernels::Matmul& m, Stream& stream) {
    calls.gelu += m.epilogue == kernels::Epilogue::kGeluTanh ? 1 : 0;
    calls.gelu_gradients += m.epilogue == kernels::Epilogue::kGeluTanhGradient ? 1 : 0;
    calls.bias_gradients += m.bias_gradient != nullptr ? 1 : 0;
    counted_base->matmul(m, stream);
  };
  table.activation_forward = [](const kernels::ActivationForward& a, Stream& stream) {
    ++calls.activations;
    counted_base->activation_forward(a, stream);
  };
  table.activation_backward = [](const kernels::ActivationBackward& a, Stream& stream) {
    ++calls.activations;
    counted_base->activation_backward(a, stream);
  };
  table.column_sum = [](const kernels::ColumnSum& s, Stream& stream) {
    ++calls.column_sums;
    counted_base->column_sum(s, stream);
  };
  return table;
}

/// Returns the gradients of a step, and the calls that it made.
Gradients run(const ModelVariant& variant, const std::vector<std::string>& frozen,
              const kernels::KernelTable& table, DType type, Calls* made = nullptr) {
  const kernels::KernelTable kernels = counted(table);
  VariantStep step(variant, frozen, kernels, type);
  Gradients gradients = step.run();
  if (made != nullptr) *made = calls;
  return gradients;
}

/// True if all projections that share a product have a bias, or none has.
bool stacks_agree(const nn::ModelConfig& m) {
  return m.bias.q == m.bias.k && m.bias.k == m.bias.v && (!nn::is_gated(m.mlp) || m.bias.gate == m.bias.up);
}

class Epilogues : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(Epilogues, ChangeNoBit) {
  const nn::ModelConfig model = resolve_variant(GetParam()).model;
  for (const DType type : {DType::kF32, DType::kBf16}) {
    Calls with, without;
    const Gradients want = run(GetParam(), {}, in_parts::base(), type, &without),
                    got = run(GetParam(), {}, epilogues_in_parts(), type, &with);
    EXPECT_TRUE(got == want);
    EXPECT_EQ(without.gelu + without.gelu_gradients + without.bias_gradients, 0);
    const bool gelu = model.mlp == nn::MlpKind::kGeluTanh && !model.adapter.on();
    int64_t dense = 0, other_sums = 0;  // sums for sinks, and for biases of routers
    for (int64_t l = 0; l < model.layers; ++l) {
      dense += model.is_sparse(l) ? 0 : 1;
      other_sums += (model.sinks ? 1 : 0) + (model.bias.router && model.is_sparse(l) ? 1 : 0);
    }
    EXPECT_EQ(with.gelu, gelu ? dense * GetParam().grad_accum_steps : 0);
    EXPECT_EQ(with.gelu_gradients, with.gelu);
    EXPECT_EQ(with.activations, gelu && dense > 0 ? 0 : without.activations);
    if (!stacks_agree(model) || model.adapter.on()) continue;  // with an adapter no bias has a gradient
    EXPECT_EQ(with.column_sums, other_sums * GetParam().grad_accum_steps);
    EXPECT_EQ(with.bias_gradients > 0, without.column_sums > with.column_sums);
  }
}

/// A frozen weight has no product whose epilogue could compute its bias's gradient.
TEST_P(Epilogues, ChangeNoBitWhereWeightsAreFrozen) {
  if (!GetParam().adapter.empty()) return;  // it has frozen weights already
  const std::vector<std::string> frozen = {"blocks.*.weight"};
  EXPECT_TRUE(run(GetParam(), frozen, epilogues_in_parts(), DType::kF32) ==
              run(GetParam(), frozen, in_parts::base(), DType::kF32));
}

INSTANTIATE_TEST_SUITE_P(Variants, Epilogues, ::testing::ValuesIn(model_variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace epilogues_test
}  // namespace hawser::testing
