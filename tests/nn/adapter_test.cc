// Tests adapters of linears: their parameters, their cost, and that an untrained adapter changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/nn/adapter_factors.h"
#include "engine/nn/initial_values.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/test_stream.h"
#include "tests/nn/variant_step.h"

namespace hawser::testing {
namespace adapter_test {

constexpr const char* kModel =
    R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "mlp_width": 24,
        "norm": "rms_norm", "mlp": "swiglu", "position": "rotary", "tied_head": false)";

ModelVariant with(const std::string& adapter, const std::string& more = "") {
  ModelVariant variant{"adapter", kModel + more + "}"};
  variant.adapter = adapter;
  return variant;
}

nn::ParameterTable table_of(const std::string& adapter, int64_t tp = 1) {
  return nn::ParameterTable(resolve_variant(with(adapter)).model, true, {}, tp);
}

std::vector<std::string> names(const nn::ParameterTable& table, bool trained) {
  std::vector<std::string> found;
  for (const nn::Parameter& p : table.all())
    if (p.trainable == trained) found.push_back(p.name);
  std::sort(found.begin(), found.end());
  return found;
}

TEST(AdapterParameters, AreAllThatTrainsButWhatIsNamed) {
  const nn::ParameterTable table =
      table_of(R"({"rank": 3, "targets": ["attention.q", "blocks.1.mlp.down"], "train": ["final_norm.*"]})");
  const std::vector<std::string> expected = {"blocks.0.attention.q.adapter_a.weight",
                                             "blocks.0.attention.q.adapter_b.weight",
                                             "blocks.1.attention.q.adapter_a.weight",
                                             "blocks.1.attention.q.adapter_b.weight",
                                             "blocks.1.mlp.down.adapter_a.weight",
                                             "blocks.1.mlp.down.adapter_b.weight",
                                             "final_norm.weight"};
  EXPECT_EQ(names(table, true), expected);
  EXPECT_EQ(table.at("blocks.1.mlp.down.adapter_a.weight").shape, (std::vector<int64_t>{3, 24}));
  EXPECT_EQ(table.at("blocks.1.mlp.down.adapter_b.weight").shape, (std::vector<int64_t>{16, 3}));
}

TEST(AdapterParameters, OfAJointModuleShareOneA) {
  const nn::ParameterTable table = table_of(R"({"rank": 3, "targets": ["attention.qkv"]})");
  EXPECT_EQ(table.at("blocks.0.attention.qkv.adapter_a.weight").shape, (std::vector<int64_t>{3, 16}));
  for (const auto& [letter, width] : {std::pair{"q", 16}, {"k", 8}, {"v", 8}}) {
    const std::string module = std::string("blocks.0.attention.") + letter;
    EXPECT_EQ(table.at(module + ".adapter_b.weight").shape, (std::vector<int64_t>{width, 3}));
    EXPECT_EQ(table.find(module + ".adapter_a.weight"), nullptr);
  }
}

TEST(AdapterParameters, TheFirstPatternSaysRankAndAlpha) {
  const nn::AdapterConfig c = resolve_variant(with(R"({"rank": 4, "alpha": 6, "rslora": true,
      "ranks": [{"of": "mlp.*", "rank": 2}, {"of": "mlp.down", "rank": 3}],
      "alphas": [{"of": "blocks.1.*", "alpha": 8}]})"))
                                  .model.adapter;
  EXPECT_EQ(nn::adapter_of(c, "blocks.0.attention.q").rank, 4);
  EXPECT_EQ(nn::adapter_of(c, "blocks.0.attention.q").scale, 3.0);
  EXPECT_EQ(nn::adapter_of(c, "blocks.0.mlp.down").rank, 2);
  EXPECT_EQ(nn::adapter_of(c, "blocks.1.attention.o").scale, 4.0);
  EXPECT_EQ(nn::adapter_of(c, "blocks.0.attention.qkv").rank, 0);
}

/// Tensor-parallel ranks divide the outputs or the inputs, and sum the gradient of the factor that each has
/// in full.
TEST(AdapterParameters, AreDividedAsTheirWeight) {
  const nn::ParameterTable table = table_of(R"({"rank": 3})", 2);
  const auto check = [&](const std::string& module, bool by_outputs) {
    const nn::Parameter &a = table.at(module + ".adapter_a.weight"),
                        &b = table.at(module + ".adapter_b.weight");
    EXPECT_EQ(a.cut.dim, by_outputs ? -1 : 1) << module;
    EXPECT_EQ(b.cut.dim, by_outputs ? 0 : -1) << module;
    EXPECT_EQ((by_outputs ? a : b).covers, nn::GradientCoverage::kOwnHeads) << module;
    EXPECT_EQ((by_outputs ? b : a).room, (by_outputs ? b : a).size / 2) << module;
  };
  for (const char* module : {"attention.q", "attention.k", "attention.v", "mlp.gate", "mlp.up"})
    check(std::string("blocks.0.") + module, true);
  for (const char* module : {"attention.o", "mlp.down"}) check(std::string("blocks.1.") + module, false);
}

/// There is one magnitude for each row, in f32 and without decay. If ranks divide the inputs, each has a part
/// of its gradient.
TEST(AdapterParameters, MagnitudesAreDividedAsRows) {
  const nn::ParameterTable table = table_of(R"({"rank": 3, "dora": true})", 2);
  for (const auto& [module, rows, divided] : {std::tuple{"attention.k", 8, true}, {"mlp.down", 16, false}}) {
    const nn::Parameter& m = table.at(std::string("blocks.0.") + module + ".adapter_m.weight");
    EXPECT_EQ(m.shape, std::vector<int64_t>{rows});
    EXPECT_EQ(m.room, divided ? rows / 2 : rows);
    EXPECT_EQ(m.covers, divided ? nn::GradientCoverage::kAll : nn::GradientCoverage::kOwnHeads);
    EXPECT_EQ(m.read, nn::Read::kLookup);
    EXPECT_TRUE(m.trainable && !m.decay);
  }
}

TEST(AdapterParameters, BeginUniformAndZero) {
  const nn::ParameterTable table = table_of(R"({"rank": 8})");
  SerialStream stream(2);
  const nn::Parameter &a = table.at("blocks.1.mlp.down.adapter_a.weight"),
                      &b = table.at("blocks.1.mlp.down.adapter_b.weight");
  std::vector<float> whole(static_cast<size_t>(a.size)), part(17);
  nn::fill_initial(whole.data(), a, 0, a.size, 0.02, 5, stream);
  const float bound = 1 / std::sqrt(24.0f);
  EXPECT_LT(*std::max_element(whole.begin(), whole.end()), bound);
  EXPECT_GE(*std::min_element(whole.begin(), whole.end()), -bound);
  EXPECT_GT(*std::max_element(whole.begin(), whole.end()), 0.9f * bound);
  double mean = 0, square = 0;
  for (const float x : whole)
    mean += static_cast<double>(x) / whole.size(), square += static_cast<double>(x) * x / whole.size();
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 1.0 / 3 / 24, 0.002);
  nn::fill_initial(part.data(), a, 42, 59, 0.02, 5, stream);
  EXPECT_EQ(std::memcmp(part.data(), whole.data() + 42, sizeof(float) * 17), 0);
  nn::fill_initial(part.data(), b, 0, 17, 0.02, 5, stream);
  for (const float x : part) EXPECT_EQ(x, 0);
}

TEST(AdapterParameters, AreRefusedWhereTheyMeanNothing) {
  const auto message = [](const std::string& adapter, const std::string& more = "") -> std::string {
    try {
      resolve_variant(with(adapter, more));
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(message(R"({"rank": 2, "targets": ["mlp.*", "*.o"]})"), "");
  EXPECT_NE(message(R"({"rank": 2, "targets": ["attention.qq"]})").find("did you mean \"attention.q\"?"),
            std::string::npos);
  EXPECT_NE(message(R"({"rank": 2, "train": ["heat.weight"]})").find("did you mean \"head.weight\"?"),
            std::string::npos);
  EXPECT_NE(message(R"({"rank": 17})").find("use 16 or less"), std::string::npos);
  EXPECT_NE(message(R"({"rank": 2, "targets": ["attention.*", "attention.qkv"]})").find("name one of them"),
            std::string::npos);
  EXPECT_NE(message(R"({"alpha": 3})").find("there is no adapter"), std::string::npos);
  EXPECT_NE(message(R"({"rank": 2, "targets": ["moe.experts.up"]})", R"(, "moe": {"experts": 4, "width": 8})")
                .find("experts, routers and embedding tables cannot"),
            std::string::npos);
}

/// Compares the step of a model whose adapter has B = 0 with that of the model alone: losses, and gradients
/// of the parameters that train in both.
TEST(Adapter, ThatIsNewChangesNoBit) {
  const ModelVariant plain = with("");
  for (const kernels::KernelTable* kernels : kernel_tables()) {
    for (const DType type : {DType::kF32, DType::kBf16}) {
      for (const char* adapter :
           {R"({"rank": 3, "train": ["*"]})",
            R"({"rank": 3, "dropout": 0.4, "targets": ["attention.qkv", "mlp.*"], "train": ["*"]})",
            R"({"rank": 3, "dora": true, "train": ["*"]})",
            R"({"rank": 3, "dora": true, "targets": ["attention.qkv", "*.down"], "train": ["*"]})"}) {
        ModelVariant variant = with(adapter);
        variant.new_adapter = true;
        VariantStep bare(plain, {}, *kernels, type), adapted(variant, {}, *kernels, type);
        const Gradients want = bare.run(), got = adapted.run();
        for (const auto& [name, gradient] : want) EXPECT_EQ(got.at(name), gradient) << name;
        EXPECT_GT(got.size(), want.size());
      }
    }
  }
}

TEST(Adapter, CostsTheProductsOfItsFactors) {
  const ModelVariant plain = with(""), adapted = with(R"({"rank": 3, "train": ["*"]})");
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const VariantStep bare(plain, {}, kernels, DType::kF32), step(adapted, {}, kernels, DType::kF32);
  double factors = 0;
  for (const nn::Parameter& p : step.model().table().all())
    if (p.adapter && p.block == 1) factors += static_cast<double>(p.size);
  const double rows = static_cast<double>(plain.micro_batch * plain.sequence);
  EXPECT_DOUBLE_EQ(step.costs().block_forward[0].flops,
                   bare.costs().block_forward[0].flops + 2 * rows * factors);
  EXPECT_EQ(step.costs().block_forward[0].saved, bare.costs().block_forward[0].saved);
  // The products with A are u, dA and dx; those with B are v twice, and dB.
  const double backward = step.costs().block_backward[0].flops - bare.costs().block_backward[0].flops;
  EXPECT_DOUBLE_EQ(backward, 2 * rows * 3 * factors);
}

/// A norm takes as many operations as a product with `rank` rows. It is computed in forward and in both
/// passes of backward, and the weight pass recomputes z. Nothing more is saved.
TEST(Adapter, WithMagnitudesCostsNormsAndTheProductAgain) {
  const ModelVariant factors = with(R"({"rank": 3})"), scaled = with(R"({"rank": 3, "dora": true})");
  const kernels::KernelTable& kernels = *kernel_tables().back();
  const VariantStep lora(factors, {}, kernels, DType::kF32), dora(scaled, {}, kernels, DType::kF32);
  double weights = 0, of_factors = 0;
  for (const nn::Parameter& p : dora.model().table().all()) {
    if (p.block != 1 || p.shape.size() != 2) continue;
    (p.adapter ? of_factors : weights) += static_cast<double>(p.size);
  }
  const double rows = static_cast<double>(factors.micro_batch * factors.sequence), norms = 2 * 3 * weights;
  EXPECT_EQ(dora.costs().block_forward[0].saved, lora.costs().block_forward[0].saved);
  EXPECT_DOUBLE_EQ(dora.costs().block_forward[0].flops, lora.costs().block_forward[0].flops + norms);
  EXPECT_DOUBLE_EQ(dora.costs().block_backward[0].flops,
                   lora.costs().block_backward[0].flops + 2 * norms + 2 * rows * (weights + of_factors));
}

TEST(Adapter, MergesIntoItsWeight) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, -1, 0.5f, 2};  // [2, 3], [2, 2]
  std::vector<float> w = {0, 0, 0, 10, 10, 10};
  nn::merge_adapter(w.data(), a.data(), b.data(), nullptr, 2, 2, 3, 2);
  EXPECT_EQ(w, (std::vector<float>{-6, -6, -6, 27, 32, 37}));
  const std::vector<float> m = {3, 5};
  w = {3, 0, 4, 0, 0, 0};
  const std::vector<float> none(4);  // B is zero
  nn::merge_adapter(w.data(), a.data(), none.data(), m.data(), 2, 2, 3, 2);
  EXPECT_EQ(w, (std::vector<float>{3 * 0.6f, 0, 4 * 0.6f, 0, 0, 0}));  // a norm of 0 has a factor of 1
}

}  // namespace adapter_test
}  // namespace hawser::testing
