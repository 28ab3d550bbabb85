// Training rules test: the length of a run, early stopping, and the changes that fine-tuning makes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/config/problem_list.h"

namespace hawser::config {
namespace training_rules_test {

ConfigTree small(const std::string& more = "") {
  return ConfigTree::from_json(
      R"({"model": {"vocab_size": 100, "context": 32, "layers": 2, "width": 48, "heads": 4},
          "batch": {"micro_batch": 8}, "data": {"format": "tokens", "token_type": "u16", "path": "x.bin"})" +
      more + "}");
}

nlohmann::json explained(const ConfigTree& tree, const char* pointer) {
  return nlohmann::json::parse(explain(tree, pointer));
}

/// Returns the message of the first problem at `pointer`; "" if there is none.
std::string problem_at(const ConfigTree& tree, const std::string& pointer) {
  for (const Problem& problem : validate(tree))
    if (problem.pointer == pointer) return problem.message;
  return "";
}

TEST(TrainingRules, EpochsAreStepsRoundedUp) {
  const ConfigTree tree = small(R"(, "train": {"epochs": 3, "epoch_samples": 101})");
  const ResolvedConfig resolved = resolve(tree);
  EXPECT_EQ(resolved.train.steps, 38);  // 303 rows, 8 in a step
  EXPECT_EQ(resolved.schedule.decay_steps, 38);
  EXPECT_EQ(explained(tree, "/train/steps").at("origin"), "rule");
  EXPECT_NE(explained(tree, "/train/steps").at("rule").get<std::string>().find("train.epochs"),
            std::string::npos);
  EXPECT_EQ(resolve(small(R"(, "train": {"epochs": 0.1, "epoch_samples": 800})")).train.steps, 10);
  EXPECT_EQ(resolve(small(R"(, "train": {"epochs": 1e-6, "epoch_samples": 8})")).train.steps, 1);
  // A resolved config has only steps, and is a valid config.
  const ConfigTree again = ConfigTree::from_json(resolved_json(tree));
  EXPECT_EQ(resolve(again).train.steps, 38);
  EXPECT_FALSE(again.get("/train/epochs", nullptr));
}

TEST(TrainingRules, StepsAndEpochsAreAlternatives) {
  const ConfigTree both = small(R"(, "train": {"epochs": 3, "steps": 5, "epoch_samples": 101})");
  EXPECT_NE(problem_at(both, "/train/epochs").find("both"), std::string::npos);
  // The value that is set later counts, also if the config has been written and read in between.
  ConfigTree steps = small(R"(, "train": {"epochs": 3, "epoch_samples": 101})");
  steps.set("/train/steps", "5");
  EXPECT_EQ(resolve(steps).train.steps, 5);
  EXPECT_EQ(resolve(ConfigTree::from_json(steps.to_json())).train.steps, 5);
  ConfigTree epochs = small(R"(, "train": {"steps": 5, "epoch_samples": 16})");
  epochs.set("/train/epochs", "2");
  EXPECT_EQ(resolve(ConfigTree::from_json(epochs.to_json())).train.steps, 4);
  // A preset's steps are not a choice of the user.
  EXPECT_EQ(resolve(ConfigTree::from_json(
                        R"({"preset": "quickstart", "train": {"epochs": 2, "epoch_samples": 64},
                            "batch": {"micro_batch": 8, "grad_accum_steps": 1},
                            "data": {"path": "x.txt"}, "schedule": {"warmup_steps": 0}})"))
                .train.steps,
            16);
}

TEST(TrainingRules, EpochsNeedDataToCount) {
  const std::string model =
      R"({"model": {"vocab_size": 100, "context": 32, "layers": 2, "width": 48, "heads": 4}, "train": )";
  EXPECT_NE(
      problem_at(ConfigTree::from_json(model + R"({"epochs": 3}})"), "/train/epochs").find("names no data"),
      std::string::npos);
  EXPECT_EQ(resolve(ConfigTree::from_json(model + R"({"epochs": 3, "epoch_samples": 80}})")).train.steps, 30);
}

TEST(TrainingRules, PatienceNeedsValidations) {
  EXPECT_NE(problem_at(small(R"(, "train": {"patience": 3})"), "/train/patience").find("eval_every is 0"),
            std::string::npos);
  EXPECT_EQ(resolve(small(R"(, "train": {"patience": 3, "eval_every": 10})")).train.patience, 3);
}

TEST(TrainingRules, NamesBelongToValidationSourcesAndTellThemApart) {
  const auto with = [](const std::string& sources) {
    return ConfigTree::from_json(
        R"({"model": {"vocab_size": 100, "context": 32, "layers": 2, "width": 48, "heads": 4},
            "data": {"format": "tokens", "token_type": "u16", )" +
        sources + "}}");
  };
  EXPECT_NE(problem_at(with(R"("sources": [{"path": "x", "name": "a"}])"), "/data/sources/0/name"), "");
  const char* const twice =
      R"("path": "x", "validation_sources": [{"path": "a", "name": "n"}, {"path": "b", "name": "n"}])";
  EXPECT_NE(problem_at(with(twice), "/data/validation_sources/1/name").find("another source"),
            std::string::npos);
  const char* const sound =
      R"("path": "x", "validation_sources": [{"path": "a", "name": "n"}, {"path": "b"}])";
  EXPECT_TRUE(validate(with(sound)).empty());
  EXPECT_EQ(resolve(with(sound)).data.validation_sources[0].name, "n");
}

TEST(TrainingRules, FineTuningHasDefaultsOfItsOwn) {
  const ConfigTree tree = small(R"(, "init": {"from": "model"}, "train": {"steps": 1010})");
  const ResolvedConfig tuned = resolve(tree), fresh = resolve(small(R"(, "train": {"steps": 1010})"));
  EXPECT_EQ(tuned.optimizer.learning_rate, 2e-5);
  EXPECT_EQ(tuned.optimizer.weight_decay, 0);
  EXPECT_EQ(tuned.optimizer.beta2, 0.999);
  EXPECT_EQ(tuned.schedule.kind, ScheduleKind::kCosine);
  EXPECT_EQ(tuned.schedule.warmup_steps, 31);
  EXPECT_EQ(fresh.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(fresh.optimizer.weight_decay, 0.1);
  EXPECT_EQ(fresh.optimizer.beta2, 0.95);
  EXPECT_EQ(fresh.schedule.warmup_steps, 0);
  for (const char* pointer : {"/optimizer/learning_rate", "/optimizer/weight_decay", "/optimizer/beta2",
                              "/schedule/warmup_steps"}) {
    const nlohmann::json field = explained(tree, pointer);
    EXPECT_EQ(field.at("origin"), "rule") << pointer;
    EXPECT_NE(field.at("rule").get<std::string>().find("with init.from: "), std::string::npos) << pointer;
  }
}

TEST(TrainingRules, FineTuningLeavesWhatIsSetAlone) {
  const ResolvedConfig set = resolve(small(
      R"(, "init": {"from": "model"}, "optimizer": {"learning_rate": 1e-3, "weight_decay": 0.1, "beta2": 0.9},
               "schedule": {"warmup_steps": 7}, "train": {"steps": 100})"));
  EXPECT_EQ(set.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(set.optimizer.weight_decay, 0.1);
  EXPECT_EQ(set.optimizer.beta2, 0.9);
  EXPECT_EQ(set.schedule.warmup_steps, 7);
  // A preset's choices stay, and SGD has other defaults.
  const ConfigTree preset = ConfigTree::from_json(
      R"({"preset": "quickstart", "init": {"from": "model"}, "data": {"path": "x.txt"}})");
  const ConfigTree plain = ConfigTree::from_json(R"({"preset": "quickstart", "data": {"path": "x.txt"}})");
  EXPECT_EQ(resolve(preset).optimizer.learning_rate, resolve(plain).optimizer.learning_rate);
  EXPECT_EQ(
      resolve(small(R"(, "init": {"from": "model"}, "optimizer": {"kind": "sgd"})")).optimizer.learning_rate,
      3e-4);
}

}  // namespace training_rules_test
}  // namespace hawser::config
