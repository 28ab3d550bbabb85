// Reward data tests: reward models train on the config's data, and start from a language model.
#include "tests/harness/equal_tensors.h"
#include "tests/harness/pair_data.h"

namespace hawser::train {
namespace reward_data_test {

using RewardData = PairData;

/// Pairs from the config's data train the same bits as pushed pairs. Validation gives held-out pairs the
/// loss that a step gives them. A run continues from its checkpoint.
TEST_F(RewardData, TrainsTheBitsOfPushedPairs) {
  const std::string pairs = write_pairs(folder_, 20), reward = R"({"kind": "reward"})",
                    plain = R"({"model": {"dropout": {"residual": 0}}, "data": {"shuffle": false}})";
  const auto whole = make(config_of(pairs, reward, plain)),
             pushed = make(config_of("", reward, R"({"model": {"dropout": {"residual": 0}}})"));
  EXPECT_TRUE(whole->dataset()->references().empty());
  for (uint64_t step = 0; step < 4; ++step) {
    pushed->push(read(*whole->dataset(), Split::kTrain, step * 12, 12).view(false));
    const StepResult a = whole->train_step(), b = pushed->train_step();
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.tokens, 12);
    EXPECT_EQ(a.rewards.accuracy, b.rewards.accuracy);
    if (step == 1) whole->saves().save(folder_.file("half"));
  }
  testing::expect_equal_tensors(*whole, *pushed);
  const auto resumed = make(config_of(pairs, reward, plain));
  resumed->loads().load(folder_.file("half"), false);
  run(*resumed, 2);
  testing::expect_equal_tensors(*whole, *resumed);

  // A step on the held-out pairs has the loss of the validation.
  whole->saves().save(folder_.file("whole"));
  auto judging = nlohmann::json::parse(config_of("", reward).to_json());
  judging.erase("model");
  judging["init"]["from"] = folder_.file("whole");
  const int64_t rows = whole->dataset()->validation_samples();
  judging["batch"] = {{"micro_batch", rows}, {"global_batch", rows}, {"sequence", kCols}};
  const auto judge = make(config::ConfigTree::from_json(judging.dump()));
  judge->push(read(*whole->dataset(), Split::kValidation, 0, rows).view(false));
  const Evaluation held_out = whole->inference().eval(nullptr, 0);
  EXPECT_EQ(held_out.loss, judge->forward_backward().loss);
  EXPECT_EQ(held_out.tokens, rows) << "one score a row";
}

TEST_F(RewardData, ALanguageModelStartsARewardModel) {
  const std::string pairs = write_pairs(folder_, 20);
  make(config_of(pairs, R"({"kind": "simpo"})"))->saves().save(folder_.file("language"));
  const std::string from = R"({"init": {"from": ")" + folder_.file("language") + R"("}})";
  auto config = nlohmann::json::parse(config_of(pairs, R"({"kind": "reward"})", from).to_json());
  config.erase("model");
  const auto trainer = make(config::ConfigTree::from_json(config.dump()));
  EXPECT_TRUE(nlohmann::json::parse(trainer->reports().info_json()).at("new_head").get<bool>());
  std::vector<float> score(24), tokens(53 * 24), before(53 * 24);
  trainer->tensors().get(TensorKind::kWeight, "score.weight", score.data(), 96);
  EXPECT_NE(score, std::vector<float>(24));
  trainer->tensors().get(TensorKind::kWeight, "embedding.tokens.weight", tokens.data(), tokens.size() * 4);
  make(config_of(pairs, R"({"kind": "simpo"})"))
      ->tensors()
      .get(TensorKind::kWeight, "embedding.tokens.weight", before.data(), before.size() * 4);
  EXPECT_EQ(tokens, before);
  run(*trainer, 2);
  const auto sharded = make(
      [&] {
        config["mesh"] = {{"dp_shard", 2}}, config["zero"] = {{"stage", 3}},
        config["batch"]["global_batch"] = 12;
        return config::ConfigTree::from_json(config.dump());
      }(),
      2);
  std::vector<float> drawn(24);
  sharded->tensors().get(TensorKind::kWeight, "score.weight", drawn.data(), 96);
  EXPECT_EQ(drawn, score);
}

/// The full head is trained, as with PEFT's modules_to_save: PEFT reads it from the adapter's folder.
TEST_F(RewardData, TheHeadTrainsBesideAnAdapter) {
  const auto trainer =
      make(config_of(write_pairs(folder_, 20), R"({"kind": "reward"})", R"({"adapter": {"rank": 2}})"));
  std::vector<float> before(24), after(24);
  trainer->tensors().get(TensorKind::kWeight, "score.weight", before.data(), 96);
  run(*trainer, 2);
  trainer->tensors().get(TensorKind::kWeight, "score.weight", after.data(), 96);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NE(before[i], after[i]) << i;
}

}  // namespace reward_data_test
}  // namespace hawser::train
