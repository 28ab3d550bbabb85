// Tests that a real step uses exactly the bytes of its plan, in total and by category, for every variant of
// the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "engine/config/config_tree.h"
#include "engine/run/trainer.h"
#include "tests/nn/model_variants.h"

namespace hawser::testing {
namespace high_water_test {

using Json = nlohmann::json;

std::unique_ptr<train::Trainer> make_trainer(const ModelVariant& variant, const char* precision,
                                             bool inference, std::atomic<bool>* cancel) {
  config::ConfigTree config = config::ConfigTree::from_json(variant_config(variant, "", 2));
  config.set("/precision", precision);
  return train::Trainer::create(config, inference, cancel);
}

void expect_training_as_planned(const ModelVariant& variant) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"}) {
    std::atomic<bool> cancel{false};
    const auto trainer = make_trainer(variant, precision, false, &cancel);
    const ReferenceBatch b = variant_batch(variant, resolve_variant(variant).model.vocab_size);
    const train::BatchView view = {b.rows, b.seq, b.tokens.data(), b.targets.data(),
                                   b.document_begin.empty() ? nullptr : b.document_begin.data()};
    for (int step = 0; step < 2; ++step) {
      trainer->push(view);
      trainer->train_step();
      const Json memory = Json::parse(trainer->reports().info_json()).at("memory");
      EXPECT_EQ(memory.at("high_water"), memory.at("planned"));
      EXPECT_EQ(memory.at("high_water_bytes"), memory.at("planned_bytes"));
      EXPECT_LE(memory.at("planned_bytes"), memory.at("arena_bytes"));
    }
  }
}

class HighWater : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(HighWater, OfATrainingStepIsThePlannedPeakByCategory) { expect_training_as_planned(GetParam()); }

TEST(HighWaterOfScores, OfATrainingStepIsThePlannedPeakByCategory) {
  for (const ModelVariant& variant : score_variants()) expect_training_as_planned(variant);
}

TEST_P(HighWater, OfAnEvaluationIsThePlannedPeakByCategory) {
  std::atomic<bool> cancel{false};
  const auto trainer = make_trainer(GetParam(), "fp32", true, &cancel);
  const ReferenceBatch b = variant_batch(GetParam(), resolve_variant(GetParam()).model.vocab_size);
  const train::BatchView view = {b.rows, b.seq, b.tokens.data(), b.targets.data(),
                                 b.document_begin.empty() ? nullptr : b.document_begin.data()};
  trainer->inference().eval(&view, 0);
  const Json memory = Json::parse(trainer->reports().info_json()).at("memory");
  EXPECT_EQ(memory.at("high_water"), memory.at("planned"));
  EXPECT_EQ(memory.at("high_water_bytes"), memory.at("planned_bytes"));
}

TEST_P(HighWater, NeverPassesTheArenaWhateverRuns) {
  std::atomic<bool> cancel{false};
  const auto trainer = make_trainer(GetParam(), "fp32", false, &cancel);
  const int64_t vocab = resolve_variant(GetParam()).model.vocab_size;
  const ReferenceBatch b = variant_batch(GetParam(), vocab);
  const train::BatchView view = {b.rows, b.seq, b.tokens.data(), b.targets.data(), nullptr};
  trainer->push(view);
  trainer->train_step();
  trainer->inference().eval(&view, 0);
  std::vector<float> logits(static_cast<size_t>(b.rows * b.seq * vocab));
  trainer->inference().forward(view, logits.data(), logits.size() * 4);
  train::GenerateRequest request;
  request.prompt = b.tokens.data(), request.prompt_length = 1, request.max_tokens = GetParam().sequence + 3;
  trainer->inference().generate(request, [](int32_t) { return true; });
  const Json memory = Json::parse(trainer->reports().info_json()).at("memory");
  EXPECT_LE(memory.at("high_water_bytes"), memory.at("arena_bytes"));
}

INSTANTIATE_TEST_SUITE_P(Variants, HighWater, ::testing::ValuesIn(model_variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace high_water_test
}  // namespace hawser::testing
