// Base engine tests: engines that borrow the weights of one base compute the same bits as without it, and
// have no memory for these weights.
#include "engine/state/base_engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace base_engine_test {

using testing::refused;
using train::TensorKind;
using train::Trainer;

constexpr const char* kFrozen = "blocks.1.mlp.down.weight";  // [40, 72]

class BaseEngine : public ::testing::Test {
 protected:
  BaseEngine() : tokens_(testing::write_tokens(folder_, 20000)) {}

  /// Returns the config of a model that Hugging Face's llama can express, on `mesh`.
  config::ConfigTree llama(const std::string& precision = "fp32", const std::string& mesh = "{}") {
    config::ConfigTree config = testing::small_config(tokens_, precision, 2);
    config.set("/model/window", "0");
    config.set("/model/window_layers", "[]");
    config.set("/mesh", mesh);
    return config;
  }

  std::string make_base(int seed) {
    config::ConfigTree config = llama();
    config.set("/seed", std::to_string(seed));
    const std::string to = folder_.file("base-" + std::to_string(seed));
    create(config, false)->exports().model_to(to, "");
    return to;
  }

  config::ConfigTree from(const std::string& folder, config::ConfigTree config) {
    config.set("/init", Json{{"from", folder}}.dump());
    return config;
  }

  /// Returns the config of adapter number `i`. Adapters have different settings.
  config::ConfigTree adapter(int i, const std::string& folder, config::ConfigTree config, bool nf4 = false) {
    config.set(
        "/adapter",
        i == 2
            ? R"({"rank": 2, "dora": true, "targets": ["attention.q", "mlp.down"], "train": ["final_norm.*"]})"
            : Json{{"rank", 3 + i}}.dump());
    if (nf4) config.set("/adapter/base", "\"nf4\"");
    config.set("/seed", std::to_string(100 + i));
    return from(folder, std::move(config));
  }

  std::unique_ptr<Trainer> create(const config::ConfigTree& config, bool inference, int ranks = 1,
                                  const Trainer* base = nullptr) {
    return Trainer::create(config, inference, &cancel_, ranks > 1 ? comm::make_local(ranks) : nullptr, base);
  }

  /// Takes `steps` steps. Returns their losses, a validation loss, and all weights and moments.
  static std::vector<float> trained(Trainer& trainer, int steps) {
    std::vector<float> all;
    for (int i = 0; i < steps; ++i) all.push_back(static_cast<float>(trainer.train_step().loss));
    all.push_back(static_cast<float>(trainer.inference().eval(nullptr, 2).loss));
    for (const Json& p : Json::parse(trainer.tensors().json())) {
      for (const TensorKind kind : {TensorKind::kWeight, TensorKind::kMoment1, TensorKind::kMoment2}) {
        const bool has_moments = !trainer.ranks().inference() && p.at("trainable").get<bool>();
        if (kind != TensorKind::kWeight && !has_moments) continue;
        for (const float value : testing::tensor(trainer, kind, p.at("name"), p.at("count")))
          all.push_back(value);
      }
    }
    return all;
  }

  const testing::ScratchFolder folder_;
  const std::string tokens_;
  std::atomic<bool> cancel_{false};
};

TEST_F(BaseEngine, ServesManyAtOnceAndOutlivesItsHandle) {
  const std::string folder = make_base(1);
  for (const std::string keeps : {"fp32", "bf16", "bf16_pure", "nf4"}) {
    SCOPED_TRACE(keeps);
    const bool nf4 = keeps == "nf4";
    const std::string precision = nf4 ? "bf16" : keeps;
    auto base =
        create(nf4 ? adapter(0, folder, llama(precision), true) : from(folder, llama(precision)), true);
    std::vector<std::unique_ptr<Trainer>> engines;
    std::vector<std::vector<float>> alone, here(3);
    for (int i = 0; i < 3; ++i) {
      const auto config = adapter(i, folder, llama(precision), nf4);
      alone.push_back(trained(*create(config, false), 4));
      engines.push_back(create(config, false, 1, base.get()));
    }
    base.reset();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 3; ++i) threads.emplace_back([&, i] { here[i] = trained(*engines[i], 4); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(here, alone);
  }
}

TEST_F(BaseEngine, ServesEveryMesh) {
  const std::string folder = make_base(1);
  struct Layout {
    const char* mesh;
    int ranks;
    int stage;
    bool nf4 = false;
  };
  for (const Layout& l : {Layout{R"({"dp_shard": 2})", 2, 0},
                          {R"({"dp_shard": 2})", 2, 2},
                          {R"({"dp_shard": 3})", 3, 3},
                          {R"({"dp_shard": 2})", 2, 3, true},
                          {R"({"dp_shard": 2, "tp": 2})", 4, 3},
                          {R"({"tp": 2})", 2, 0},
                          {R"({"pp": 2})", 2, 0},
                          {R"({"pp": 2, "dp_shard": 2})", 4, 1}}) {
    SCOPED_TRACE(std::string(l.mesh) + " stage " + std::to_string(l.stage));
    config::ConfigTree model = llama("bf16", l.mesh);
    model.set("/zero/stage", std::to_string(l.stage));
    if (std::string(l.mesh).find("pp") != std::string::npos) model.set("/pipeline/layers", "[1, 1]");
    const auto base = create(l.nf4 ? adapter(0, folder, model, true) : from(folder, model), true, l.ranks);
    const auto config = adapter(2, folder, model, l.nf4);
    EXPECT_EQ(trained(*create(config, false, l.ranks, base.get()), 3),
              trained(*create(config, false, l.ranks), 3));
  }
}

TEST_F(BaseEngine, TakesNoBytesForWhatAnotherHas) {
  const std::string folder = make_base(1);
  const auto base = create(from(folder, llama()), true);
  const auto alone = create(adapter(0, folder, llama()), false),
             on = create(adapter(0, folder, llama()), false, 1, base.get());
  const auto arena = [](const Trainer& t) { return t.ranks().first().arena()->bytes(); };
  int64_t frozen = 0;
  for (const nn::Parameter& p : alone->ranks().table().all()) frozen += p.in_base() ? p.size * 4 : 0;
  EXPECT_GE(arena(*alone) - arena(*on), frozen);
  const auto weights = [](const Trainer& t) {
    return t.ranks().stages()[0].any().at_peak[static_cast<size_t>(plan::Category::kWeights)];
  };
  EXPECT_LT(weights(*on), frozen / 4);  // the adapter's own
  EXPECT_EQ(on->tensors().location(TensorKind::kWeight, kFrozen).data,
            base->tensors().location(TensorKind::kWeight, kFrozen).data);
}

/// At stage 3, an engine gathers borrowed weights into windows, and has no shards of them.
TEST_F(BaseEngine, LendsItsShards) {
  const std::string folder = make_base(1);
  config::ConfigTree model = llama("bf16", R"({"dp_shard": 4})");
  model.set("/zero", R"({"stage": 3, "reshard_after_forward": "group", "reshard_group": 2})");
  const auto base = create(from(folder, model), true, 4);
  const auto config = adapter(0, folder, model);
  const auto alone = create(config, false, 4), on = create(config, false, 4, base.get());
  const auto at_peak = [](const Trainer& t, plan::Category category) {
    return t.ranks().stages()[0].any().at_peak[static_cast<size_t>(category)];
  };
  int64_t frozen = 0;
  for (const nn::Parameter& p : alone->ranks().table().all()) frozen += p.in_base() ? p.size : 0;
  EXPECT_GE(at_peak(*alone, plan::Category::kWeights) - at_peak(*on, plan::Category::kWeights), frozen / 2);
  EXPECT_GT(at_peak(*on, plan::Category::kBuckets), 0);
  EXPECT_EQ(trained(*on, 3), trained(*alone, 3));
  const Json memory = Json::parse(on->reports().info_json()).at("memory");
  EXPECT_EQ(memory.at("high_water_bytes"), memory.at("planned_bytes"));
}

TEST_F(BaseEngine, AndOneAloneReadEachOthersCheckpoints) {
  const std::string folder = make_base(1);
  const auto base = create(from(folder, llama()), true);
  const auto config = adapter(0, folder, llama());
  const auto on = create(config, false, 1, base.get()), alone = create(config, false);
  trained(*on, 2), trained(*alone, 2);
  on->saves().save(folder_.file("on")), alone->saves().save(folder_.file("alone"));
  const auto resume = [&](const std::string& name, const Trainer* stands_on) {
    const auto engine = create(config, false, 1, stands_on);
    engine->loads().load(folder_.file(name), false);
    return trained(*engine, 2);
  };
  const std::vector<float> expected = resume("alone", nullptr);
  EXPECT_EQ(resume("on", nullptr), expected);
  EXPECT_EQ(resume("alone", base.get()), expected);
  // An inference engine starts from a checkpoint of the adapter.
  const auto tuned = from(folder_.file("on"), llama());
  EXPECT_EQ(trained(*create(tuned, true, 1, base.get()), 0), trained(*create(tuned, true), 0));
}

TEST_F(BaseEngine, IsRefusedIfItsWeightsMayChangeOrAreOthers) {
  const std::string folder = make_base(1), other = make_base(2);
  const auto base = create(from(folder, llama()), true);
  const auto config = adapter(0, folder, llama());
  const auto names = [&](Code code, const config::ConfigTree& c, const Trainer& on, const char* words) {
    const std::string message = refused(code, [&] { create(c, false, 1, &on); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  using enum Code;
  names(kFailedPrecondition, config, *create(from(folder, llama()), false), "HWS_ENGINE_INFERENCE");
  names(kFailedPrecondition, config, *create(llama(), true), "in no folder");
  const auto tenant = create(config, true, 1, base.get());
  names(kFailedPrecondition, config, *tenant, "uses the weights of another");
  names(kConfigInvalid, from(folder, llama()), *base, "/adapter");
  names(kConfigInvalid, adapter(0, other, llama()), *base, "/init/from");
  names(kConfigInvalid, adapter(0, folder, llama("bf16")), *base, "/precision");
  config::ConfigTree sharded = llama("fp32", R"({"dp_shard": 2})");
  sharded.set("/zero/stage", "3");
  names(kConfigInvalid, adapter(0, folder, sharded), *base, "/zero/stage");
  names(kConfigInvalid, adapter(0, folder, sharded), *base, "/mesh");
  config::ConfigTree records = sharded;
  records.set("/zero/quantized_weights", "int8");
  names(kConfigInvalid, adapter(0, folder, sharded), *create(from(folder, records), true, 2),
        "/zero/quantized_weights");

  const auto set = [&](Trainer& t) {
    const std::vector<float> ones(40 * 72, 1.0F);
    t.tensors().set(TensorKind::kWeight, kFrozen, ones.data(), ones.size() * sizeof(float));
  };
  const std::string shared = refused(kFailedPrecondition, [&] { set(*base); });
  EXPECT_NE(shared.find("hws_engine_create_on"), std::string::npos) << shared;
  refused(kFailedPrecondition, [&] { set(*tenant); });
  const auto free = create(from(folder, llama()), true);
  set(*free);
  names(kFailedPrecondition, config, *free, "hws_tensor_set changed");

  const auto stranger = create(adapter(0, other, llama()), false);
  stranger->saves().save(folder_.file("stranger"));
  config::ConfigTree tuned = llama();
  tuned.set("/init", Json{{"from", folder_.file("stranger")}, {"base", folder}}.dump());
  names(kCheckpointIncompatible, tuned, *base, "of the tensors");
}

}  // namespace base_engine_test
}  // namespace hawser
