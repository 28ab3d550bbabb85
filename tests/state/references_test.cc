// References tests: pairs from the config's data train the same bits as pushed pairs with the
// log-probabilities of the model with which the engine was created, also in a run that continues from a
// checkpoint.
#include "engine/state/references.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/ranks/fit_ranks.h"
#include "tests/data/data_files.h"
#include "tests/data/prepared_files.h"
#include "tests/golden/safetensors_file.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/pair_data.h"
#include "tests/harness/small_config.h"

namespace hawser::train {
namespace references_test {

using ReferencesTest = PairData;

TEST_F(ReferencesTest, DataOfPairsTrainTheBitsOfPushedPairs) {
  const std::string pairs = write_pairs(folder_, 20);
  for (const char* objective :
       {R"({"kind": "dpo"})", R"({"kind": "dpo_sft"})", R"({"kind": "simpo"})", R"({"kind": "orpo"})"}) {
    for (const char* layout : {"{}", R"({"mesh": {"dp_shard": 3}, "zero": {"stage": 2}})"}) {
      const int32_t ranks = std::string(layout) == "{}" ? 1 : 3;
      const auto from_data = make(config_of(pairs, objective, layout), ranks);
      const auto pushed = make(config_of("", objective, layout), ranks);
      const bool has_references = !from_data->dataset()->references().empty();
      EXPECT_EQ(has_references, from_data->config().objective.has_reference());
      for (uint64_t step = 0; step < 4; ++step) {
        pushed->push(read(*from_data->dataset(), Split::kTrain, step * 12, 12).view(has_references));
        const StepResult a = from_data->train_step(), b = pushed->train_step();
        EXPECT_EQ(a.loss, b.loss) << objective << layout << step;
        EXPECT_EQ(a.grad_norm, b.grad_norm);
        EXPECT_EQ(a.rewards.accuracy, b.rewards.accuracy);
      }
      testing::expect_equal_tensors(*from_data, *pushed);
    }
  }
}

/// The model as it is created is its own reference: the margin is 0 and the loss log 2.
TEST_F(ReferencesTest, TheReferenceIsTheModelAsTrainingBegins) {
  const std::string pairs = write_pairs(folder_, 20);
  for (const char* adapter : {"{}", R"({"adapter": {"rank": 2}})"}) {
    const auto trainer = make(config_of(pairs, R"({"kind": "dpo"})", adapter));
    EXPECT_EQ(trainer->dataset()->references(), computed(*trainer));
    const std::vector<float> before = trainer->dataset()->references();
    run(*trainer, 3);
    EXPECT_NE(before, computed(*trainer)) << "the model moves";
    EXPECT_EQ(before, trainer->dataset()->references()) << "and its reference does not";
  }
  const auto still =
      make(config_of(pairs, R"({"kind": "dpo"})", R"({"model": {"dropout": {"residual": 0}}})"));
  EXPECT_NEAR(still->forward_backward().loss, std::log(2.0), 1e-5);
}

TEST_F(ReferencesTest, EveryLayoutComputesThem) {
  const std::string pairs = write_pairs(folder_, 23);  // a multiple of no micro-batch and no number of ranks
  const auto one = make(config_of(pairs, R"({"kind": "dpo"})"));
  const std::vector<float> expected = one->dataset()->references();
  for (const auto& [layout, ranks, same] :
       {std::tuple<const char*, int32_t, bool>{R"({"mesh": {"dp_shard": 3}, "zero": {"stage": 3}})", 3, true},
        {R"({"mesh": {"pp": 2}})", 2, true},
        {R"({"mesh": {"tp": 2}})", 2, false},
        {R"({"mesh": {"cp": 2, "dp_shard": 2}})", 4, false}}) {
    const auto trainer = make(config_of(pairs, R"({"kind": "dpo"})", layout), ranks);
    const std::vector<float>& found = trainer->dataset()->references();
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_TRUE(!same || found == expected) << layout;
    for (size_t row = 0; row < found.size(); ++row) EXPECT_NEAR(found[row], expected[row], 1e-4) << layout;
  }
}

TEST_F(ReferencesTest, AResumedRunReadsThemAndTrainsTheSameBits) {
  const std::string pairs = write_pairs(folder_, 20);
  const auto with = [&](const std::string& name) {
    return config_of(pairs, R"({"kind": "dpo"})",
                     R"({"checkpoint": {"path": ")" + folder_.file(name) + R"(", "every": 3}})");
  };
  const auto whole = make(with("whole"));
  whole->loop().run(6, nullptr);
  const auto half = make(with("run"));
  EXPECT_FALSE(half->references().read);
  half->loop().run(3, nullptr);
  for (const bool kept : {true, false}) {
    if (!kept) std::filesystem::remove(folder_.file("run") + "/references.safetensors");
    const auto resumed = make(with("run"));
    EXPECT_EQ(resumed->references().read, kept);
    resumed->loads().load(folder_.file("run/step-3"), false);
    EXPECT_EQ(resumed->dataset()->references(), whole->dataset()->references());
    run(*resumed, 3);
    testing::expect_equal_tensors(*whole, *resumed);
  }
}

TEST_F(ReferencesTest, OtherDataOrAnotherModelFindNoneInTheFolder) {
  const std::string pairs = write_pairs(folder_, 20), others = write_pairs(folder_, 20, 4);
  const std::string kept = R"({"checkpoint": {"path": ")" + folder_.file("run") + "\"}";
  make(config_of(pairs, R"({"kind": "dpo"})", kept + "}"))->loop().run(1, nullptr);
  EXPECT_TRUE(make(config_of(pairs, R"({"kind": "ipo"})", kept + "}"))->references().read);
  EXPECT_FALSE(make(config_of(others, R"({"kind": "dpo"})", kept + "}"))->references().read);
  EXPECT_FALSE(make(config_of(pairs, R"({"kind": "dpo"})", kept + R"(, "seed": 8})"))->references().read);
}

TEST_F(ReferencesTest, ADamagedFileIsRefused) {
  const auto config = config_of(write_pairs(folder_, 20), R"({"kind": "dpo"})",
                                R"({"checkpoint": {"path": ")" + folder_.file("run") + "\"}}");
  make(config)->loop().run(1, nullptr);
  const std::string path = folder_.file("run") + "/references.safetensors";
  std::string bytes = testing::text_of_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  data::expect_error(Code::kCheckpointCorrupt, {"references.safetensors", "remove it"},
                     [&] { make(config); });
}

TEST_F(ReferencesTest, AnotherNumberOfRanksKeepsPairsTogether) {
  const auto config =
      config_of(write_pairs(folder_, 20), R"({"kind": "dpo"})", R"({"batch": {"micro_batch": 6}})");
  for (const int64_t ranks : {1, 2, 3, 6})
    EXPECT_EQ(config::resolve(fit_ranks(config, ranks)).batch.micro_batch,
              ranks == 1 || ranks == 2 ? 6 : 12 / ranks);
  data::expect_error(Code::kConfigInvalid, {"4 ranks", "6 pairs", "use 3 or 6"},
                     [&] { fit_ranks(config, 4); });
}

TEST_F(ReferencesTest, AFolderMayBeTheReference) {
  const std::string pairs = write_pairs(folder_, 20);
  const auto other = make(config_of(pairs, R"({"kind": "dpo"})", R"({"seed": 9})"));
  other->saves().save(folder_.file("other"));
  const std::string objective = R"({"kind": "dpo", "reference": ")" + folder_.file("other") + "\"}";
  for (const int32_t ranks : {1, 2}) {
    const std::string layout =
        ranks == 1 ? "{}" : R"({"mesh": {"dp_shard": 2}, "batch": {"global_batch": 8}})";
    const auto trainer = make(config_of(pairs, objective, layout), ranks);
    EXPECT_EQ(trainer->dataset()->references(), other->dataset()->references());
    EXPECT_NE(trainer->dataset()->references(), computed(*trainer));
    run(*trainer, 1);
  }
  data::expect_error(Code::kConfigInvalid, {"/objective/reference", "a vocabulary of 53", "has 60"},
                     [&] { make(config_of(pairs, objective, R"({"model": {"vocab_size": 60}})")); });
  data::expect_error(Code::kNotFound, {"/objective/reference", "nowhere"},
                     [&] { make(config_of(pairs, R"({"kind": "dpo", "reference": "nowhere"})")); });
}

/// Writes the pairs of a golden case as a prepared folder, one step after the other.
void write_golden(const golden::Tensors& tensors, const std::string& path) {
  const std::vector<int32_t> ids = tensors.at("input_ids").as_int32(),
                             mask = tensors.at("completion_mask").as_int32();
  constexpr int64_t kRows = 8, kLength = 33;
  data::PreparedFiles files;
  files.cols = kLength, files.packed = false;
  for (int64_t row = 0; row < static_cast<int64_t>(ids.size()) / kLength; ++row) {
    const int64_t i = row % kRows,
                  from = row - i + i / 2 + i % 2 * kRows / 2;  // the golden file has all chosen rows first
    for (int64_t t = 0; t < kLength; ++t) {
      const auto at = static_cast<size_t>(from * kLength + t);
      files.tokens.push_back(static_cast<uint32_t>(ids[at]));
      files.marks.push_back(static_cast<uint8_t>((t == 0 ? data::kDocumentBegin : 0) |
                                                 (mask[at] != 0 ? data::kTargetToken : 0)));
    }
  }
  files.write(path, [&](data::PreparedManifest* manifest) {
    manifest->pairs = true, manifest->vocabulary = 1 << 20;
  });
}

/// Compares with Transformers: the reference's log-probabilities, and losses and rewards of 20 steps
/// (tests/golden).
TEST_F(ReferencesTest, FilesOfPairsGiveTheGoldenNumbers) {
  for (const std::string name : {"dpo", "dpo_lora"}) {
    const std::string golden = std::string(HAWSER_GOLDEN) + "/objectives/" + name;
    const golden::Tensors tensors = golden::read_safetensors(golden + "/case.safetensors");
    write_golden(tensors, folder_.file(name));
    nlohmann::json json = {
        {"init", {{"from", golden}}},
        {"data",
         {{"format", "prepared"},
          {"path", folder_.file(name)},
          {"shuffle", false},
          {"validation_fraction", 0}}},
        {"batch", {{"micro_batch", 4}, {"global_batch", 8}, {"sequence", 33}}},
        {"objective", {{"kind", "dpo"}, {"reference", golden + (name == "dpo" ? "/reference" : "")}}},
        {"optimizer",
         {{"learning_rate", 2e-3},
          {"beta1", 0.9},
          {"beta2", 0.95},
          {"eps", 1e-8},
          {"weight_decay", 0.1},
          {"clip_norm", 1}}},
        {"schedule", {{"kind", "constant"}, {"warmup_steps", 0}}},
        {"train", {{"steps", 20}, {"eval_every", 0}}},
        {"cpu", {{"threads", 1}}}};
    if (name == "dpo_lora") json["adapter"]["from"] = golden + "/adapter";
    const auto trainer = make(config::ConfigTree::from_json(json.dump()));
    const std::vector<double> references = tensors.at("reference_logps").as_doubles(),
                              losses = tensors.at("losses").as_doubles(),
                              chosen = tensors.at("chosen_rewards").as_doubles();
    for (size_t row = 0; row < references.size(); ++row)
      EXPECT_NEAR(trainer->dataset()->references()[row],
                  references[row - row % 8 + row % 8 / 2 + row % 2 * 4], 1e-4);
    for (size_t step = 0; step < 20; ++step) {
      const StepResult result = trainer->train_step();
      double reward = 0;
      for (size_t i = 0; i < 4; ++i) reward += chosen[step * 4 + i] / 4;
      EXPECT_NEAR(result.loss, losses[step], 2e-4) << name << " " << step;
      EXPECT_NEAR(result.rewards.chosen, reward, 2e-4) << name << " " << step;
    }
  }
}

/// Validation evaluates the objective on held-out pairs, from sums of their own log-probabilities, with every
/// layout.
TEST_F(ReferencesTest, ValidationReportsTheObjective) {
  const std::string pairs = write_pairs(folder_, 30);
  for (const char* objective : {R"({"kind": "dpo"})", R"({"kind": "dpo_sft"})", R"({"kind": "simpo"})"}) {
    for (const auto& [layout, ranks] : {std::pair<const char*, int32_t>{"{}", 1},
                                        {R"({"mesh": {"dp_shard": 3}})", 3},
                                        {R"({"mesh": {"pp": 2, "tp": 2}})", 4},
                                        {R"({"mesh": {"cp": 2}})", 2}}) {
      const auto trainer = make(config_of(pairs, objective, layout), ranks);
      run(*trainer, 3);
      const data::Dataset& dataset = *trainer->dataset();
      const int64_t rows = dataset.validation_samples();
      const std::vector<float> logps = computed(*trainer);
      const Batch held_out = read(dataset, Split::kValidation, 0, rows);
      double loss = 0, right = 0, likelihood = 0, learned = 0;
      const optim::ObjectiveConfig& o = trainer->config().objective;
      for (int64_t i = 0; i < rows; i += 2) {
        optim::Answer answers[2];
        for (int64_t row = i; row < i + 2; ++row) {
          const auto at = held_out.rows.targets.begin() + row * kCols;
          answers[row - i] = {static_cast<double>(logps[static_cast<size_t>(dataset.train_samples() + row)]),
                              static_cast<double>(held_out.references[static_cast<size_t>(row)]),
                              static_cast<double>(kCols - std::count(at, at + kCols, -100))};
        }
        const optim::PairLoss p = optim::pair_loss(o, answers[0], answers[1], 0);
        loss += p.loss, right += optim::half_wins(p) / 2.0;
        likelihood += answers[0].logp, learned += answers[0].tokens;
      }
      const auto count = static_cast<double>(rows) / 2;
      const Evaluation e = trainer->inference().eval(nullptr, 0);
      EXPECT_NEAR(e.loss, loss / count - o.sft_weight * likelihood / learned, 1e-4) << objective << layout;
      ASSERT_TRUE(e.rewards.has_value());
      EXPECT_DOUBLE_EQ(e.rewards->accuracy, right / count) << objective << layout;
    }
  }
}

/// Makes an engine for inference on a checkpoint, with the pairs that `config` trains on.
std::unique_ptr<Trainer> opened(const config::ConfigTree& config, const std::string& checkpoint,
                                std::atomic<bool>* cancel, int32_t ranks = 1,
                                const std::string& more = "{}") {
  nlohmann::json json = nlohmann::json::parse(config.to_json());
  json.erase("model"), json.erase("adapter"), json.erase("seed");
  json["init"] = {{"from", checkpoint}};
  json.merge_patch(nlohmann::json::parse(more));
  return Trainer::create(config::ConfigTree::from_json(json.dump()), true, cancel,
                         ranks > 1 ? comm::make_local(ranks) : nullptr);
}

/// An engine for inference on a run's checkpoint finds the model with which the run began, and so evaluates
/// pairs as the run did.
TEST_F(ReferencesTest, InferenceOnACheckpointEvaluatesAsItsRunDid) {
  const std::string pairs = write_pairs(folder_, 30);
  make(config_of(pairs, R"({"kind": "simpo"})"))->saves().save(folder_.file("base"));
  const std::string from_base = R"({"init": {"from": ")" + folder_.file("base") + R"("}, "seed": 5)";
  const std::vector<std::pair<std::string, std::string>> runs = {
      {R"({"kind": "dpo", "beta": 0.3})", "{}"},  // began with random weights
      {R"({"kind": "ipo"})", from_base + "}"},
      {R"({"kind": "dpo_sft"})", from_base + R"(, "adapter": {"rank": 2, "base": "nf4"}})"},
      {R"({"kind": "dpo", "reference": ")" + folder_.file("base") + "\"}", "{}"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& [objective, more] = runs[i];
    const config::ConfigTree config = config_of(pairs, objective, more);
    const auto trainer = make(config);
    run(*trainer, 3);
    const std::string checkpoint = folder_.file("run-" + std::to_string(i));
    trainer->saves().save(checkpoint);
    const Evaluation expected = trainer->inference().eval(nullptr, 0);
    const auto one = opened(config, checkpoint, &cancel_);
    const auto held_out = [](const Trainer& of) {
      const std::vector<float>& all = of.dataset()->references();
      return std::vector<float>(all.begin() + of.dataset()->train_samples(), all.end());
    };
    EXPECT_EQ(held_out(*one), held_out(*trainer)) << objective;
    const Evaluation found = one->inference().eval(nullptr, 0);
    EXPECT_EQ(found.loss, expected.loss) << objective;
    EXPECT_EQ(found.rewards->accuracy, expected.rewards->accuracy) << objective;
    EXPECT_EQ(found.rewards->chosen, expected.rewards->chosen) << objective;
    EXPECT_NE(found.rewards->chosen, 0) << objective;
    const auto two =
        opened(config, checkpoint, &cancel_, 2, R"({"mesh": {"dp_shard": 2}, "zero": {"stage": 3}})");
    EXPECT_EQ(two->inference().eval(nullptr, 0).loss, expected.loss) << objective;
  }
}

/// The base of a run's adapter has moved: /init/base says where it is, also for the reference.
TEST_F(ReferencesTest, AMovedBaseIsTheReferenceToo) {
  const std::string pairs = write_pairs(folder_, 30), base = folder_.file("base"),
                    there = folder_.file("there");
  make(config_of(pairs, R"({"kind": "simpo"})"))->saves().save(base);
  const auto config = config_of(pairs, R"({"kind": "dpo"})",
                                R"({"init": {"from": ")" + base + R"("}, "adapter": {"rank": 2}})");
  const auto trainer = make(config);
  run(*trainer, 2);
  trainer->saves().save(folder_.file("run"));
  std::filesystem::rename(base, there);
  const auto moved =
      opened(config, folder_.file("run"), &cancel_, 1, R"({"init": {"base": ")" + there + "\"}}");
  EXPECT_EQ(moved->inference().eval(nullptr, 0).loss, trainer->inference().eval(nullptr, 0).loss);
}

/// A run without a reference does not say which model it should be.
TEST_F(ReferencesTest, ACheckpointOfAnotherObjectiveHasNoReference) {
  const auto config = config_of(write_pairs(folder_, 20), R"({"kind": "dpo"})");
  const auto plain = make(config_of(write_pairs(folder_, 20, 4), R"({"kind": "simpo"})"));
  plain->saves().save(folder_.file("plain"));
  const auto engine = opened(config, folder_.file("plain"), &cancel_);
  data::expect_error(Code::kFailedPrecondition, {"/objective/reference", "give a batch"},
                     [&] { engine->inference().eval(nullptr, 0); });
}

}  // namespace references_test
}  // namespace hawser::train
