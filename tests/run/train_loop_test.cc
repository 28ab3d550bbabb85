// Train loop tests: how long a run lasts, what it reports for several validation sets, and when it ends
// early.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/comm/comm.h"
#include "engine/data/dataset.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace train_loop_test {

using nlohmann::json;
using testing::expect_equal_tensors;
using testing::ScratchFolder;
using testing::small_config;
using testing::write_tokens;
using train::Trainer;
using train::TrainRecord;

class TrainLoopTest : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const config::ConfigTree& config,
                                std::shared_ptr<comm::Comm> comm = nullptr) {
    return Trainer::create(config, false, &cancel_, std::move(comm));
  }
  /// Writes a validation file, in which every token is `token` or 1.
  std::string write_constant(const std::string& name, uint16_t token, int count) {
    std::vector<uint16_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(i % 2 == 0 ? token : 1);
    const std::string path = folder_.file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * 2));
    return path;
  }
  config::ConfigTree with_sets(const json& sets, int rank_count = 1) {
    config::ConfigTree config = small_config(tokens_);
    config.set("/data/validation_sources", sets.dump());
    if (rank_count > 1) {
      config.set("/mesh/dp_shard", std::to_string(rank_count));
      config.set("/batch", R"({"micro_batch": 1, "grad_accum_steps": 3, "sequence": 24})");
    }
    return config;
  }
  /// No step changes a weight, so no validation after the first is better.
  config::ConfigTree standing_still(int patience) {
    config::ConfigTree config = small_config(tokens_);
    config.set("/optimizer/learning_rate", "0");
    config.set("/train", json{{"steps", 40}, {"eval_every", 2}, {"patience", patience}}.dump());
    config.set("/checkpoint", json{{"path", folder_.file("run")}}.dump());
    return config;
  }
  static json metrics(Trainer& trainer) { return json::parse(trainer.metrics().json()); }

  ScratchFolder folder_;
  std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

TEST_F(TrainLoopTest, EpochsAreCountedInTheData) {
  config::ConfigTree config = small_config(tokens_);
  config.set("/train/epochs", "1.5");
  const auto trainer = make(config);
  const int64_t samples = trainer->dataset()->train_samples();
  EXPECT_EQ(samples, 17999 / 24);
  EXPECT_EQ(trainer->config().train.steps, (3 * samples / 2 + 5) / 6);
  EXPECT_EQ(trainer->config().schedule.decay_steps, trainer->config().train.steps);
}

TEST_F(TrainLoopTest, EachValidationSetHasItsOwnLoss) {
  const std::string a = write_constant("a/x.bin", 7, 400), b = write_constant("b/x.bin", 9, 150),
                    c = write_constant("c.bin", 11, 700);
  const auto all = make(with_sets({{{"path", a}}, {{"path", b}}, {{"path", c}, {"name", "elevens"}}}));
  all->train_step();
  const train::Evaluation whole = all->inference().eval(nullptr, 0);
  ASSERT_EQ(whole.sets.size(), 3u);
  EXPECT_EQ(whole.sets[0].name, "x.bin");
  EXPECT_EQ(whole.sets[1].name, "x.bin-2");
  EXPECT_EQ(whole.sets[2].name, "elevens");
  double sum = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < 3; ++i) {
    const auto one = make(with_sets({{{"path", i == 0 ? a : i == 1 ? b : c}}}));
    one->train_step();
    const train::Evaluation alone = one->inference().eval(nullptr, 0);
    EXPECT_TRUE(alone.sets.empty()) << "one set is the whole";
    EXPECT_EQ(whole.sets[i].loss, alone.loss);
    EXPECT_EQ(whole.sets[i].tokens, alone.tokens);
    sum += alone.loss * static_cast<double>(alone.tokens), tokens += alone.tokens;
  }
  EXPECT_EQ(whole.tokens, tokens);
  EXPECT_NEAR(whole.loss, sum / static_cast<double>(tokens), 1e-12);
  EXPECT_EQ(metrics(*all).at("validation_losses"), (json{{"x.bin", whole.sets[0].loss},
                                                         {"x.bin-2", whole.sets[1].loss},
                                                         {"elevens", whole.sets[2].loss}}));
}

TEST_F(TrainLoopTest, SetsAreTheSameOverRanks) {
  const json sets = {{{"path", write_constant("a.bin", 7, 400)}},
                     {{"path", write_constant("b.bin", 9, 150)}}};
  const train::Evaluation one = make(with_sets(sets))->inference().eval(nullptr, 0),
                          two = make(with_sets(sets, 2), comm::make_local(2))->inference().eval(nullptr, 0);
  ASSERT_EQ(two.sets.size(), 2u);
  EXPECT_EQ(one.loss, two.loss);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(one.sets[i].loss, two.sets[i].loss);
}

TEST_F(TrainLoopTest, ASetBeyondTheLimitHasNoLoss) {
  const json sets = {{{"path", write_constant("a.bin", 7, 400)}},
                     {{"path", write_constant("b.bin", 9, 150)}}};
  const auto trainer = make(with_sets(sets));
  const train::Evaluation first = trainer->inference().eval(nullptr, 1);  // 6 rows of 16
  EXPECT_EQ(first.loss, first.sets[0].loss);
  EXPECT_TRUE(std::isnan(first.sets[1].loss));
  EXPECT_TRUE(metrics(*trainer).at("validation_losses").at("b.bin").is_null());
}

TEST_F(TrainLoopTest, PatienceEndsARunThatHasStoppedImproving) {
  const auto trainer = make(standing_still(3));
  std::vector<int64_t> steps;
  trainer->loop().run(0, [&](const TrainRecord& r) { return steps.push_back(r.result.step), true; });
  EXPECT_EQ(steps.size(), 8u) << "best after 2, and not better after 4, 6 and 8";
  EXPECT_TRUE(metrics(*trainer).at("ended_early").get<bool>());
  EXPECT_TRUE(std::filesystem::exists(folder_.file("run/step-8/manifest.json")));
  trainer->loop().run(0, nullptr);
  EXPECT_EQ(metrics(*trainer).at("step"), 8) << "it has ended";
}

TEST_F(TrainLoopTest, PatienceSurvivesACheckpoint) {
  const auto whole = make(standing_still(3));
  whole->loop().run(5, nullptr);
  EXPECT_FALSE(metrics(*whole).at("ended_early").get<bool>());
  const auto resumed = make(standing_still(3));
  resumed->loads().load(folder_.file("run/step-5"), false);
  resumed->loop().run(0, nullptr);
  whole->loop().run(0, nullptr);
  EXPECT_EQ(metrics(*resumed).at("step"), 8);
  EXPECT_EQ(metrics(*whole).at("step"), 8);
  expect_equal_tensors(*whole, *resumed);
  const auto patient = make(standing_still(5));
  patient->loads().load(folder_.file("run/step-8"), false);
  patient->loop().run(0, nullptr);
  EXPECT_EQ(metrics(*patient).at("step"), 12) << "with more patience it goes on";
}

TEST_F(TrainLoopTest, WithoutPatienceARunIsAsLongAsItsSteps) {
  const auto trainer = make(standing_still(0));
  trainer->loop().run(0, nullptr);
  EXPECT_EQ(metrics(*trainer).at("step"), 40);
  EXPECT_FALSE(metrics(*trainer).at("ended_early").get<bool>());
}

}  // namespace train_loop_test
}  // namespace hawser
