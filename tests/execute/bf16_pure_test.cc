// Tests precision bf16_pure: it learns as much as fp32, while bf16 weights rounded to nearest hardly
// learn; runs are bit-identical with any number of threads and when resumed; a parameter takes 8 bytes,
// and there is one window; state stored in another type is accepted as weights only.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/report/plan_report.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace bf16_pure_test {

using nlohmann::json;
using train::TensorKind;
using train::Trainer;

class Bf16Pure : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const config::ConfigTree& config) {
    return Trainer::create(config, false, &cancel_);
  }
  config::ConfigTree config(const std::string& precision, int threads = 1, const std::string& more = "") {
    return testing::small_config(tokens_, precision, threads, more);
  }
  /// Wide initial values and small steps: most updates are far below half a unit in a bf16 weight's last
  /// place.
  config::ConfigTree slow(const std::string& precision) {
    config::ConfigTree tree = config(precision);
    for (const char* site : {"embedding", "attention", "residual"})
      tree.set(std::string("/model/dropout/") + site, "0");
    tree.set("/init/std", "0.5");
    tree.set("/optimizer/learning_rate", "1e-4");
    tree.set("/optimizer/weight_decay", "0");
    tree.set("/schedule/kind", "constant");
    return tree;
  }

  testing::ScratchFolder folder_;
  const std::string tokens_ = testing::write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

std::vector<std::pair<std::string, size_t>> names_of(const Trainer& trainer) {
  std::vector<std::pair<std::string, size_t>> names;
  for (const json& t : json::parse(trainer.tensors().json()))
    names.emplace_back(t.at("name").get<std::string>(), t.at("count").get<size_t>());
  return names;
}

/// Rounds the weights as precision bf16 would without masters.
void round_weights_to_nearest(Trainer* trainer) {
  for (const auto& [name, size] : names_of(*trainer)) {
    std::vector<float> values = testing::tensor(*trainer, TensorKind::kWeight, name, size);
    for (float& value : values) value = testing::from_bf16(testing::to_bf16(value));
    trainer->tensors().set(TensorKind::kWeight, name, values.data(), values.size() * sizeof(float));
  }
}

TEST_F(Bf16Pure, LearnsWhereNearestRoundingStandsStill) {
  constexpr int kSteps = 160;
  const auto learned = [&](const std::string& precision, bool to_nearest) {
    const auto trainer = make(slow(precision));
    double first = 0, last = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double loss = trainer->train_step().loss;
      (i < kSteps / 2 ? first : last) += i < 10 || i >= kSteps - 10 ? loss / 10 : 0;
      if (to_nearest) round_weights_to_nearest(trainer.get());
    }
    return first - last;
  };
  const double exact = learned("fp32", false), pure = learned("bf16_pure", false),
               nearest = learned("fp32", true);
  RecordProperty("fp32", std::to_string(exact));
  RecordProperty("bf16_pure", std::to_string(pure));
  RecordProperty("nearest", std::to_string(nearest));
  EXPECT_GT(exact, 0.5);
  EXPECT_NEAR(pure, exact, 0.05 * exact);
  EXPECT_LT(nearest, 0.3 * exact);
}

TEST_F(Bf16Pure, KeepsEverythingInBf16AndTheSameBitsForAnyNumberOfThreads) {
  const auto one = make(config("bf16_pure", 1)), three = make(config("bf16_pure", 3));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one->train_step().loss, three->train_step().loss);
  one->forward_backward(), three->forward_backward();
  for (const auto& [name, size] : names_of(*one))
    for (const TensorKind kind :
         {TensorKind::kWeight, TensorKind::kGradient, TensorKind::kMoment1, TensorKind::kMoment2}) {
      const std::vector<float> values = testing::tensor(*one, kind, name, size);
      EXPECT_EQ(values, testing::tensor(*three, kind, name, size)) << name;
      for (const float v : values) ASSERT_EQ(v, testing::from_bf16(testing::to_bf16(v))) << name;
    }
  EXPECT_EQ(one->tensors().location(TensorKind::kWeight, "final_norm.weight").type, DType::kBf16);
}

/// Each element takes 2 + 2 + 4 bytes, gaps and padding included. The window has the f32 gradients of one
/// block until they are rounded; it is as large as the largest block.
TEST_F(Bf16Pure, PlansEightBytesAParameterAndOneWindow) {
  for (const bool frozen : {false, true}) {
    const std::string more = frozen ? R"(, "init": {"std": 0.03})" : "";
    config::ConfigTree pure = config("bf16_pure", 1, more), wide = config("bf16", 1, more);
    for (config::ConfigTree* c : {&pure, &wide})
      if (frozen) c->set("/optimizer/frozen", R"(["blocks.0.mlp.*"])");
    const json plan = json::parse(train::plan_report(pure, true)),
               mixed = json::parse(train::plan_report(wide, true));
    const auto slots = [&](const json& of, const std::string& name) {
      int64_t bytes = 0;
      for (const json& slot : of.at("slots"))
        if (slot.at("name").get<std::string>().starts_with(name)) bytes += slot.at("bytes").get<int64_t>();
      return bytes;
    };
    const int64_t trained = slots(mixed, "moment1.") / 4;
    EXPECT_EQ(slots(plan, "gradients."), 2 * trained);
    EXPECT_EQ(slots(plan, "moment1.") + slots(plan, "moment2."), 4 * trained);
    EXPECT_EQ(slots(plan, "master."), 0);
    const int64_t all = slots(plan, "weights.") / 2, parameters = plan.at("parameters").get<int64_t>();
    EXPECT_EQ(all > trained, frozen) << "frozen parameters have 2 bytes";
    EXPECT_TRUE(all >= parameters && all < parameters + 64 * 12) << all << " elements for " << parameters;
    int windows = 0;
    for (const json& slot : plan.at("slots")) {
      const std::string name = slot.at("name").get<std::string>(), window = "gradient_window.";
      if (!name.starts_with(window)) continue;
      const std::string block = name.substr(window.size(), name.rfind('.') - window.size());
      EXPECT_EQ(slot.at("bytes").get<int64_t>(), 2 * slots(plan, "gradients." + block)) << name;
      EXPECT_FALSE(slot.at("persistent").get<bool>());
      ++windows;
    }
    EXPECT_EQ(windows, 2 * 4) << "of embedding, two blocks and head, in two micro-batches";
    EXPECT_LT(plan.at("peak_bytes").get<int64_t>(), mixed.at("peak_bytes").get<int64_t>());
    EXPECT_NE(plan.at("types").get<std::string>().find("The cost: "), std::string::npos);
  }
}

TEST_F(Bf16Pure, GoesOnOnlyFromWhatWasKeptAlikeButStartsFromAnyWeights) {
  const auto pure = make(config("bf16_pure")), wide = make(config("bf16"));
  pure->train_step(), wide->train_step();
  pure->saves().save(folder_.file("pure")), wide->saves().save(folder_.file("wide"));
  const auto refused = [&](Trainer* trainer, const char* path, const char* words) {
    try {
      trainer->loads().load(folder_.file(path), false);
      FAIL() << path << " was loaded";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kCheckpointIncompatible);
      EXPECT_NE(e.message().find(words), std::string::npos) << e.message();
    }
  };
  refused(pure.get(), "wide", "as F32, but this engine keeps its state as BF16");
  refused(wide.get(), "pure", "as BF16, but this engine keeps its state as F32");
  const auto from = [&](const char* path, const char* precision) {
    return make(config(precision, 1, R"(, "init": {"from": ")" + folder_.file(path) + R"("})"));
  };
  const auto widened = from("pure", "fp32"), narrowed = from("wide", "bf16_pure");
  for (const auto& [name, size] : names_of(*pure)) {
    EXPECT_EQ(testing::tensor(*widened, TensorKind::kWeight, name, size),
              testing::tensor(*pure, TensorKind::kWeight, name, size))
        << name;
    std::vector<float> rounded = testing::tensor(*wide, TensorKind::kWeight, name, size);
    for (float& value : rounded) value = testing::from_bf16(testing::to_bf16(value));
    EXPECT_EQ(testing::tensor(*narrowed, TensorKind::kWeight, name, size), rounded) << name;
  }
}

TEST_F(Bf16Pure, ExportsItsWeightsExactlyAndImportsThem) {
  const auto llama = [&](const std::string& sections) {
    return make(config::ConfigTree::from_json(
        R"({"precision": "bf16_pure", "batch": {"micro_batch": 1, "sequence": 8}, )" + sections + "}"));
  };
  const auto trained =
      llama(R"("model": {"vocab_size": 53, "context": 24, "layers": 1, "width": 32, "heads": 4,
      "kv_heads": 2, "norm": "rms_norm", "mlp": "swiglu", "mlp_width": 48, "tied_head": false})");
  const std::vector<int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  trained->push({1, 8, tokens.data(), tokens.data(), nullptr});
  trained->train_step();
  trained->exports().model_to(folder_.file("hf"), "bf16");
  const auto imported = llama(R"("init": {"from": ")" + folder_.file("hf") + "\"}");
  for (const auto& [name, size] : names_of(*trained))
    EXPECT_EQ(testing::tensor(*imported, TensorKind::kWeight, name, size),
              testing::tensor(*trained, TensorKind::kWeight, name, size))
        << name;
}

}  // namespace bf16_pure_test
}  // namespace hawser
