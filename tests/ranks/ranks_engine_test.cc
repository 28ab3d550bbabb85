// Engine tests over several ranks: evaluation, logits, generation, memory, checkpoints between all
// layouts, and errors that all ranks share.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/config/config_tree.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace ranks_engine_test {

using Json = nlohmann::json;
using train::TensorKind;

Layout layout(int64_t replicate, int64_t shard, int64_t stage, int64_t accumulation) {
  Layout l;
  l.dp_replicate = replicate, l.dp_shard = shard, l.stage = stage, l.accumulation = accumulation;
  return l;
}

/// Returns one layout of each kind. All have a global batch of twelve micro-batches.
std::vector<Layout> layouts_up_to_four() {
  std::vector<Layout> all = {layout(1, 1, 0, 12), layout(1, 2, 0, 6), layout(1, 2, 1, 6),
                             layout(1, 2, 3, 6),  layout(1, 3, 2, 4), layout(3, 1, 0, 4),
                             layout(1, 4, 3, 3),  layout(2, 2, 2, 3), layout(2, 2, 3, 3)};
  all[4].reduce = all[6].reduce = "per_micro_batch";
  for (const int64_t stage : {0, 3}) {
    all.push_back(layout(1, stage == 0 ? 1 : 2, stage, stage == 0 ? 12 : 6));
    all.back().pp = 2;
  }
  return all;
}

TEST(RanksEngine, EvaluatesLikeOneRank) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem p;
    p.precision = precision;
    LayoutRun serial(p, layout(1, 1, 0, 1));
    for (const int64_t rows : {1, 5, 13}) {
      const Rows batch = rows_of(p, rows, rows == 5 ? 5 : 3);  // the batch of step 5 has weights
      const train::BatchView view = batch.view();
      const train::Evaluation expected = serial.trainer().inference().eval(&view, 0);
      std::vector<float> logits(static_cast<size_t>(rows * batch.cols * 53)), others(logits.size());
      serial.trainer().inference().forward(view, logits.data(), logits.size() * 4);
      std::vector<float> logprobs(static_cast<size_t>(rows * batch.cols)), their_logprobs(logprobs.size());
      serial.trainer().inference().logprobs(view, logprobs.data(), logprobs.size() * 4);
      for (const Layout& l : layouts_up_to_four()) {
        LayoutRun run(p, l);
        const train::Evaluation got = run.trainer().inference().eval(&view, 0);
        EXPECT_EQ(got.loss, expected.loss) << l.name();
        EXPECT_EQ(got.tokens, expected.tokens) << l.name();
        run.trainer().inference().forward(view, others.data(), others.size() * 4);
        EXPECT_EQ(others, logits) << l.name();
        run.trainer().inference().logprobs(view, their_logprobs.data(), their_logprobs.size() * 4);
        EXPECT_EQ(their_logprobs, logprobs) << l.name();
      }
    }
  }
}

TEST(RanksEngine, GeneratesLikeOneRank) {
  const auto text = [](train::Trainer& trainer) {
    const std::vector<int32_t> prompt = {5, 17, 3};
    train::GenerateRequest request;
    request.prompt = prompt.data(), request.prompt_length = 3, request.max_tokens = 20;
    request.temperature = 1, request.seed = 4;
    std::vector<int32_t> tokens;
    trainer.inference().generate(request, [&](int32_t token) { return tokens.push_back(token), true; });
    return tokens;
  };
  LayoutRun serial(Problem(), layout(1, 1, 0, 1));
  const std::vector<int32_t> expected = text(serial.trainer());
  EXPECT_EQ(expected.size(), 20u);
  for (const Layout& l : layouts_up_to_four())
    EXPECT_EQ(text(LayoutRun(Problem(), l).trainer()), expected) << l.name();
}

TEST(RanksEngine, TakesToTheByteWhatItsPlanSays) {
  std::vector<Layout> layouts = layouts_up_to_four();
  for (const bool sequence_parallel : {true, false}) {
    layouts.push_back(layout(1, 2, 2, 2));
    layouts.back().tp = 2, layouts.back().sequence_parallel = sequence_parallel;
  }
  for (const char* mode : {"ring", "ulysses", "gather"}) {
    layouts.push_back(layout(1, 1, 2, 2));
    layouts.back().cp = 2, layouts.back().cp_mode = mode;
  }
  for (const char* precision : {"fp32", "bf16"})
    for (const Layout& l : layouts) {
      Problem p;
      p.precision = precision;
      LayoutRun run(p, l);
      run.step();
      const Json memory = Json::parse(run.trainer().reports().info_json()).at("memory");
      EXPECT_EQ(memory.at("high_water"), memory.at("planned")) << l.name();
      EXPECT_EQ(memory.at("high_water_bytes"), memory.at("planned_bytes")) << l.name();
    }
}

/// Returns all state of a trainer, by kind and name.
std::map<std::string, std::vector<float>> state_of(train::Trainer& trainer) {
  std::map<std::string, std::vector<float>> state;
  for (const Json& t : Json::parse(trainer.tensors().json()))
    for (const TensorKind kind : {TensorKind::kWeight, TensorKind::kMoment1, TensorKind::kMoment2}) {
      const std::string name = t.at("name").get<std::string>();
      if (!trainer.tensors().keeps(kind, trainer.ranks().table().at(name))) continue;
      std::vector<float>& values = state[std::to_string(static_cast<int>(kind)) + name];
      values.resize(t.at("count").get<size_t>());
      trainer.tensors().get(kind, name, values.data(), values.size() * sizeof(float));
    }
  return state;
}

/// Sets every weight, frozen ones too, to a value that no seed gives.
void set_all_weights(train::Trainer& trainer) {
  for (const Json& t : Json::parse(trainer.tensors().json())) {
    std::vector<float> values(t.at("count").get<size_t>());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.1f * static_cast<float>(static_cast<int64_t>(i * 31 % 17) - 8);
    trainer.tensors().set(TensorKind::kWeight, t.at("name").get<std::string>(), values.data(),
                          values.size() * sizeof(float));
  }
}

TEST(RanksEngine, WeightsThatTheCallerSetsReachEveryRank) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem p;
    p.precision = precision, p.frozen = true;
    const Rows batch = rows_of(p, 13, 3);
    const train::BatchView view = {13, batch.cols, batch.tokens.data(), batch.targets.data(), nullptr};
    LayoutRun serial(p, layout(1, 1, 0, 1));
    set_all_weights(serial.trainer());
    const double expected = serial.trainer().inference().eval(&view, 0).loss;
    for (const Layout& l : layouts_up_to_four()) {
      LayoutRun run(p, l);
      set_all_weights(run.trainer());
      EXPECT_EQ(run.trainer().inference().eval(&view, 0).loss, expected) << l.name();
    }
  }
}

Json counters(train::Trainer& trainer) {
  Json info = Json::parse(trainer.reports().info_json()), kept;
  for (const char* key : {"step", "accepted_steps", "skipped_steps", "samples"}) kept[key] = info.at(key);
  return kept;
}

TEST(RanksEngine, AnyLayoutLoadsWhatAnyOtherSaved) {
  const ScratchFolder folder;
  Problem p;
  p.precision = "bf16", p.frozen = true;
  p.rules = R"([{"of": "*.bias", "kind": "lion"}, {"of": "blocks.1.mlp.*", "kind": "sgd", "rate": 9}])";
  const std::vector<Layout> layouts = layouts_up_to_four();
  for (size_t from = 0; from < layouts.size(); ++from) {
    LayoutRun saver(p, layouts[from]);
    for (int i = 0; i < 2; ++i) saver.step();
    const std::string path = folder.file("from-" + std::to_string(from));
    saver.trainer().saves().save(path);
    checkpoint::Reader::open(path)->verify();
    const auto expected = state_of(saver.trainer());
    for (const Layout& to : layouts) {
      LayoutRun loader(p, to);
      loader.trainer().loads().load(path, false);
      EXPECT_EQ(state_of(loader.trainer()), expected) << layouts[from].name() << " -> " << to.name();
      EXPECT_EQ(counters(loader.trainer()), counters(saver.trainer())) << to.name();
    }
    // The same layout continues bit for bit.
    LayoutRun resumed(p, layouts[from]);
    resumed.trainer().loads().load(path, false);
    resumed.skip_to(2);
    EXPECT_EQ(first_difference({saver.step()}, {resumed.step()}), "") << layouts[from].name();
  }
}

/// The tensors of the folder are stacked and transposed (gpt2) or neither (qwen2).
TEST(RanksEngine, AnyLayoutTakesAHuggingFaceFolder) {
  for (const char* family : {"gpt2_tanh", "qwen2_window"}) {
    const auto trainer_of = [&](const Layout& l, std::atomic<bool>* cancel) {
      Json config = Json::parse(l.sections());
      config["init"]["from"] = std::string(HAWSER_GOLDEN_CASES) + "/" + family;
      config["batch"] = {{"micro_batch", 1}, {"sequence", 8}};
      const auto tree = config::ConfigTree::from_json(config.dump());
      const auto comm = l.world() > 1 ? comm::make_local(static_cast<int32_t>(l.world())) : nullptr;
      return train::Trainer::create(tree, false, cancel, comm);
    };
    std::atomic<bool> cancel{false};
    const auto serial = trainer_of(layout(1, 1, 0, 1), &cancel);
    const auto expected = state_of(*serial);
    for (const Layout& l : layouts_up_to_four())
      EXPECT_EQ(state_of(*trainer_of(l, &cancel)), expected) << family << " " << l.name();
  }
}

TEST(RanksEngine, LeavesNothingWhereASaveFails) {
  const ScratchFolder folder;
  LayoutRun run(Problem(), layout(1, 3, 2, 2));
  run.step();
  const std::string path = folder.file("step-1");
  std::filesystem::create_directory(path);
  try {
    run.trainer().saves().save(path);
    ADD_FAILURE() << "a used path was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kAlreadyExists);
    EXPECT_NE(e.message().find("rank 0"), std::string::npos) << e.message();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.file("")), {}), 1);
  run.trainer().saves().save(folder.file("step-2"));  // the ranks can still communicate
  run.step();
}

/// Limits files to 100 bytes, so that every rank fails to write.
class FullDisk {
 public:
  FullDisk() {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {100, before_.rlim_max};
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(RanksEngine, KeepsTheOldCheckpointWhereWritingANewOneFails) {
  const ScratchFolder folder;
  LayoutRun run(Problem(), layout(1, 3, 3, 2));
  run.step();
  run.trainer().saves().save(folder.file("step-1"));
  run.step();
  {
    const FullDisk disk;
    EXPECT_THROW(run.trainer().saves().save(folder.file("step-2")), Error);
  }
  checkpoint::Reader::open(folder.file("step-1"))->verify();
  EXPECT_FALSE(std::filesystem::exists(folder.file("step-2")));
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("")))
    EXPECT_TRUE(entry.path().filename() == "step-1" || entry.path().filename() == "LATEST") << entry.path();
  run.trainer().saves().save(folder.file("step-2"));
  checkpoint::Reader::open(folder.file("step-2"))->verify();
}

/// The stream of samples does not depend on ranks: rows come in the same order for every dp.
TEST(RanksEngine, SeeTheSameSamplesAtEveryDegree) {
  const ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 4000);
  std::vector<double> losses;
  for (const int64_t dp : {1, 2, 4}) {
    config::ConfigTree config = small_config(tokens);
    config.set("/batch", R"({"micro_batch": 1, "sequence": 24, "global_batch": 8})");
    config.set("/zero", dp > 1 ? R"({"sum_order": "tree", "stage": 2})" : R"({"sum_order": "tree"})");
    config.set("/mesh/dp_shard", std::to_string(dp));
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(
        config, false, &cancel, dp > 1 ? comm::make_local(static_cast<int32_t>(dp)) : nullptr);
    std::vector<double> these;
    for (int i = 0; i < 4; ++i) these.push_back(trainer->train_step().loss);
    if (losses.empty()) losses = these;
    EXPECT_EQ(these, losses) << dp;
  }
}

/// The stream of samples does not depend on micro-batches either: before the first update, the loss,
/// including dropout, depends only on the samples.
TEST(RanksEngine, SeeTheSameSamplesInMicroBatchesOfAnySize) {
  const ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 4000);
  std::vector<double> losses;
  for (const int64_t micro_batch : {1, 2, 4}) {
    for (const int64_t dp : {1, 2}) {
      config::ConfigTree config = small_config(tokens);
      config.set("/batch",
                 fmt::format(R"({{"micro_batch": {}, "sequence": 24, "global_batch": 8}})", micro_batch));
      config.set("/mesh/dp_shard", std::to_string(dp));
      std::atomic<bool> cancel{false};
      const auto trainer = train::Trainer::create(
          config, false, &cancel, dp > 1 ? comm::make_local(static_cast<int32_t>(dp)) : nullptr);
      losses.push_back(trainer->train_step().loss);
      EXPECT_EQ(losses.back(), losses.front()) << "micro-batches of " << micro_batch << ", dp " << dp;
    }
  }
}

TEST(RanksEngine, BadDataOnOneRankFailsAllAndTheStepCanBeRepeated) {
  const ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 4000);
  config::ConfigTree config = small_config(tokens);
  config.set("/mesh/dp_shard", "3");
  config.set("/zero/stage", "3");
  std::atomic<bool> cancel{false};
  const auto trainer = train::Trainer::create(config, false, &cancel, comm::make_local(3));
  {  // the file is checked when it is opened, so it is damaged afterwards
    std::fstream file(tokens, std::ios::binary | std::ios::in | std::ios::out);
    const uint16_t outside = 60000;
    file.seekp(2 * 1900);
    file.write(reinterpret_cast<const char*>(&outside), 2);
  }
  int failures = 0;
  for (int i = 0; i < 40 && failures < 2; ++i) {
    try {
      trainer->train_step();
    } catch (const Error& e) {
      ++failures;
      EXPECT_EQ(e.code(), Code::kDataInvalid) << e.message();
    }
  }
  EXPECT_EQ(failures, 2) << "the bad sample stays where it is, and so do the ranks";
}

TEST(RanksEngine, NeedsACommOfTheMeshsSize) {
  Problem p;
  const config::ConfigTree config = config::ConfigTree::from_json(layout_config(p, layout(1, 4, 1, 1)));
  std::atomic<bool> cancel{false};
  for (const auto& comm : {std::shared_ptr<comm::Comm>(), comm::make_local(3)}) {
    try {
      train::Trainer::create(config, false, &cancel, comm);
      ADD_FAILURE() << "a mesh of 4 ran on other ranks";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kConfigInvalid);
      EXPECT_NE(e.message().find("4 ranks"), std::string::npos) << e.message();
    }
  }
}

TEST(RanksEngine, SkipsAStepTogether) {
  Problem p;
  p.frozen = false;
  LayoutRun run(p, layout(1, 3, 3, 1));
  run.step();
  const auto before = state_of(run.trainer());
  std::vector<float> broken(53 * 24, 0.0f);
  broken[100] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> kept(broken.size());
  run.trainer().tensors().get(TensorKind::kWeight, "embedding.tokens.weight", kept.data(), kept.size() * 4);
  run.trainer().tensors().set(TensorKind::kWeight, "embedding.tokens.weight", broken.data(),
                              broken.size() * 4);
  const Rows rows = rows_of(p, 6, 9);
  run.trainer().push({rows.rows, rows.cols, rows.tokens.data(), rows.targets.data(), nullptr});
  const train::StepResult result = run.trainer().train_step();
  EXPECT_EQ(result.outcome, train::Outcome::kSkippedNonFinite);
  run.trainer().tensors().set(TensorKind::kWeight, "embedding.tokens.weight", kept.data(), kept.size() * 4);
  EXPECT_EQ(state_of(run.trainer()), before);
}

/// Only the embedding is trained. A single row of the batch uses the last rows of the table, one of which
/// is NaN, so loss and gradients are finite on all ranks except the last.
TEST(RanksEngine, SkipsAStepThatIsNotFiniteOnOneRankAlone) {
  for (const int64_t stage : {1, 2, 3}) {
    Problem p;
    p.tied = false;
    Json json = Json::parse(layout_config(p, layout(1, 3, stage, 1)));
    json["optimizer"]["frozen"] = {"embedding.positions.weight", "blocks.*", "final_norm.*", "head.*"};
    std::atomic<bool> cancel{false};
    const auto trainer = train::Trainer::create(config::ConfigTree::from_json(json.dump()), false, &cancel,
                                                comm::make_local(3));
    for (const Json& t : Json::parse(trainer->tensors().json()))
      ASSERT_EQ(t.at("trainable").get<bool>(), t.at("name") == "embedding.tokens.weight") << t.dump();
    std::vector<float> words(53 * 24);
    const size_t bytes = words.size() * sizeof(float);
    trainer->tensors().get(TensorKind::kWeight, "embedding.tokens.weight", words.data(), bytes);
    words[50 * 24] = std::numeric_limits<float>::quiet_NaN();
    trainer->tensors().set(TensorKind::kWeight, "embedding.tokens.weight", words.data(), bytes);
    Rows rows = rows_of(p, 6, 0);
    for (int64_t i = 0; i < rows.rows * rows.cols; ++i) {
      int32_t& token = rows.tokens[static_cast<size_t>(i)];
      token = i / rows.cols == 5 ? 41 + token % 12 : token % 30;
      if (i == rows.rows * rows.cols - 1) token = 50, rows.targets.back() = 7;
    }
    trainer->push({rows.rows, rows.cols, rows.tokens.data(), rows.targets.data(), nullptr});
    EXPECT_EQ(trainer->train_step().outcome, train::Outcome::kSkippedNonFinite) << "stage " << stage;
  }
}

}  // namespace ranks_engine_test
}  // namespace hawser::testing
