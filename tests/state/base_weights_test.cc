// Base weight tests: a checkpoint of an adapter leaves out its base, and refuses another base.
#include "engine/assembly/base_weights.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/reader.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace base_weights_test {

namespace fs = std::filesystem;
using testing::refused;
using train::TensorKind;
using train::Trainer;

constexpr const char* kFactor = "blocks.1.mlp.down.adapter_b.weight";  // [40, 4]
constexpr int64_t kFactorSize = 40 * 4;
constexpr const char* kFrozen = "blocks.1.mlp.down.weight";

class BaseWeights : public ::testing::Test {
 protected:
  BaseWeights() : tokens_(testing::write_tokens(folder_, 20000)) {}

  /// Returns the config of a model that Hugging Face's llama can express.
  config::ConfigTree llama(const std::string& precision = "fp32") {
    config::ConfigTree config = testing::small_config(tokens_, precision, 2);
    config.set("/model/window", "0");
    config.set("/model/window_layers", "[]");
    return config;
  }

  /// Writes random weights of `seed` as a checkpoint or a Hugging Face folder, and returns the folder.
  std::string make_base(const std::string& name, int seed, bool hugging_face) {
    config::ConfigTree config = llama();
    config.set("/seed", std::to_string(seed));
    const auto trainer = Trainer::create(config, false, &cancel_);
    if (hugging_face) {
      trainer->exports().model_to(folder_.file(name), "");
    } else {
      trainer->saves().save(folder_.file(name));
    }
    return folder_.file(name);
  }

  config::ConfigTree config_on(const std::string& from, const std::string& precision = "fp32") {
    config::ConfigTree config = llama(precision);
    config.set("/init", Json{{"from", from}}.dump());
    config.set("/adapter", R"({"rank": 4})");
    return config;
  }

  std::unique_ptr<Trainer> create(const config::ConfigTree& config, bool inference = false) {
    return Trainer::create(config, inference, &cancel_);
  }

  std::vector<float> factor_after(Trainer& trainer, int steps) {
    for (int i = 0; i < steps; ++i) trainer.train_step();
    return testing::tensor(trainer, TensorKind::kWeight, kFactor, kFactorSize);
  }

  const testing::ScratchFolder folder_;
  const std::string tokens_;
  std::atomic<bool> cancel_{false};
};

TEST_F(BaseWeights, StayOutOfCheckpointsAndResumeIsBitwise) {
  for (const bool hugging_face : {true, false})
    for (const std::string precision : {"fp32", "bf16", "bf16_pure"}) {
      const std::string name = precision + (hugging_face ? "-hf" : "");
      config::ConfigTree config = config_on(make_base("base-" + name, 1, hugging_face), precision);
      if (hugging_face) config.set("/adapter/dora", "true");
      const std::vector<float> expected = factor_after(*create(config), 6);
      const auto half = create(config);
      factor_after(*half, 3);
      half->saves().save(folder_.file(name));
      const auto reader = checkpoint::Reader::open(folder_.file(name));
      for (const auto& [tensor, entry] : reader->tensors())
        EXPECT_NE(tensor.find("adapter_"), std::string::npos) << tensor;
      const auto resumed = create(config);
      resumed->loads().load(folder_.file(name), false);
      EXPECT_EQ(factor_after(*resumed, 3), expected) << name;
    }
}

TEST_F(BaseWeights, AreFoundByAModelThatIsOpenedFromTheCheckpoint) {
  config::ConfigTree config = config_on(make_base("base", 1, true));
  config.set("/adapter/dora", "true");
  const auto trainer = create(config);
  const std::vector<float> factor = factor_after(*trainer, 3);
  trainer->saves().save(folder_.file("tuned"));
  const auto from = [&](const std::string& init) {
    config::ConfigTree config = llama();
    config.set("/init", init);
    return create(config, true);
  };
  const std::string tuned = Json{{"from", folder_.file("tuned")}}.dump();
  const auto opened = from(tuned);
  EXPECT_EQ(factor_after(*opened, 0), factor);
  const auto frozen = [](Trainer& t) { return testing::tensor(t, TensorKind::kWeight, kFrozen, 40 * 72); };
  EXPECT_EQ(frozen(*opened), frozen(*trainer));
  const auto magnitudes = [](Trainer& t) {
    return testing::tensor(t, TensorKind::kWeight, "blocks.1.mlp.down.adapter_m.weight", 40);
  };
  EXPECT_EQ(magnitudes(*opened), magnitudes(*trainer));

  fs::rename(folder_.file("base"), folder_.file("moved"));
  const std::string lost = refused(Code::kNotFound, [&] { from(tuned); });
  EXPECT_NE(lost.find("/init/base"), std::string::npos) << lost;
  const auto named = [&](const std::string& base, bool any) {
    return Json{{"from", folder_.file("tuned")}, {"base", base}, {"any_base", any}}.dump();
  };
  EXPECT_EQ(frozen(*from(named(folder_.file("moved"), false))), frozen(*trainer));

  const std::string other = make_base("other", 2, true);
  const std::string message = refused(Code::kCheckpointIncompatible, [&] { from(named(other, false)); });
  for (const std::string& words : {std::string("of the tensors"), other})
    EXPECT_NE(message.find(words), std::string::npos) << message;
  EXPECT_NE(frozen(*from(named(other, true))), frozen(*trainer));
}

TEST_F(BaseWeights, OfAnotherModelAreRefusedAndNothingChanges) {
  const auto trainer = create(config_on(make_base("base", 1, true)));
  factor_after(*trainer, 2);
  trainer->saves().save(folder_.file("tuned"));
  const auto other = create(config_on(make_base("other", 2, true)));
  const std::string message =
      refused(Code::kCheckpointIncompatible, [&] { other->loads().load(folder_.file("tuned"), false); });
  EXPECT_NE(message.find("trained on the weights in"), std::string::npos) << message;
  EXPECT_EQ(other->train_step().step, 1);

  config::ConfigTree anew = llama();  // its checkpoints include the base
  anew.set("/adapter", R"({"rank": 4})");
  refused(Code::kCheckpointIncompatible, [&] { create(anew)->loads().load(folder_.file("tuned"), false); });
}

/// A checkpoint and a Hugging Face folder, and one rank and two, give the same quantised base.
TEST_F(BaseWeights, InNf4ResumeIsBitwiseAndAMergeIsIntoTheNumbersThatItWasTrainedOn) {
  const auto frozen = [](Trainer& t) { return testing::tensor(t, TensorKind::kWeight, kFrozen, 40 * 72); };
  std::vector<float> numbers;
  for (const bool hugging_face : {true, false})
    for (const std::string precision : {"fp32", "bf16"}) {
      const std::string name = precision + (hugging_face ? "-hf" : "");
      config::ConfigTree config = config_on(make_base("base-" + name, 1, hugging_face), precision);
      const std::vector<float> plain = frozen(*create(config));
      config.set("/adapter/base", "\"nf4\"");
      const auto whole = create(config);
      if (numbers.empty()) numbers = frozen(*whole);
      EXPECT_EQ(frozen(*whole), numbers) << name;
      EXPECT_NE(numbers, plain);
      const std::vector<float> expected = factor_after(*whole, 6);
      const auto half = create(config);
      factor_after(*half, 3);
      half->saves().save(folder_.file(name));
      const auto reader = checkpoint::Reader::open(folder_.file(name));
      for (const auto& [tensor, entry] : reader->tensors())
        EXPECT_NE(tensor.find("adapter_"), std::string::npos) << tensor;
      const auto resumed = create(config);
      resumed->loads().load(folder_.file(name), false);
      EXPECT_EQ(factor_after(*resumed, 3), expected) << name;

      config::ConfigTree stored = config;
      stored.set("/adapter/base", "\"stored\"");
      const std::string other = refused(Code::kCheckpointIncompatible,
                                        [&] { create(stored)->loads().load(folder_.file(name), false); });
      EXPECT_NE(other.find("/adapter/base"), std::string::npos) << other;

      config::ConfigTree opened = llama();
      opened.set("/init", Json{{"from", folder_.file(name)}}.dump());
      const auto again = create(opened, true);
      EXPECT_EQ(frozen(*again), numbers) << name;
      again->exports().model_to(folder_.file("merged-" + name), "");
      opened.set("/init", Json{{"from", folder_.file("merged-" + name)}}.dump());
      const std::vector<float> merged = frozen(*create(opened, true));
      const std::vector<float> a =
          testing::tensor(*again, TensorKind::kWeight, "blocks.1.mlp.down.adapter_a.weight", 4 * 72);
      const std::vector<float> b = testing::tensor(*again, TensorKind::kWeight, kFactor, kFactorSize);
      for (size_t i = 0; i < merged.size(); ++i) {
        double sum = numbers[i];
        for (size_t r = 0; r < 4; ++r)
          sum += 2.0 * static_cast<double>(b[i / 72 * 4 + r]) * static_cast<double>(a[r * 72 + i % 72]);
        EXPECT_NEAR(merged[i], sum, 1e-6);
      }
    }
}

TEST_F(BaseWeights, CannotBeChangedOrNamedInVain) {
  const std::string base = make_base("base", 1, true);
  const auto trainer = create(config_on(base));
  const std::vector<float> zeros(40 * 72);
  refused(Code::kFailedPrecondition, [&] {
    trainer->tensors().set(TensorKind::kWeight, kFrozen, zeros.data(), zeros.size() * sizeof(float));
  });
  config::ConfigTree config = config_on(base);
  config.set("/init/base", Json(base).dump());
  EXPECT_NE(refused(Code::kConfigInvalid, [&] { create(config); }).find("/init/base"), std::string::npos);
}

}  // namespace base_weights_test
}  // namespace hawser
