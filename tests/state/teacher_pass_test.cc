// Teacher pass tests: training on data with /teacher/from gives the same bits as training on pushed batches
// with rows from Inference::top_logprobs of that teacher, also in a run that continues from a checkpoint.
// Every layout computes the same pairs.
#include "engine/state/teacher_pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "tests/data/data_files.h"
#include "tests/data/prepared_files.h"
#include "tests/golden/safetensors_file.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/small_config.h"

namespace hawser::train {
namespace teacher_pass_test {

using data::Split;
using nlohmann::json;
using testing::ScratchFolder;

constexpr int64_t kCols = 12, kRows = 23, kTop = 4;

class TeacherPass : public ::testing::Test {
 protected:
  TeacherPass() {
    data::PreparedFiles files;
    files.cols = kCols;
    for (uint64_t row = 0; row < kRows; ++row)
      for (int64_t t = 0; t < kCols; ++t) {
        const PhiloxBlock word = philox(5, row, static_cast<uint64_t>(t));
        files.tokens.push_back(word.v[0] % 53);
        const bool begins = t == 0 || word.v[1] % 5 == 0;
        files.marks.push_back(begins               ? data::kDocumentBegin
                              : word.v[2] % 3 == 0 ? data::kTargetToken
                              : t == kCols - 1     ? data::kTargetToken
                                                   : 0);
      }
    rows_ = folder_.file("rows");
    files.write(rows_);
    teacher_ = folder_.file("teacher");
    auto made = make(config({{"seed", 9}, {"model", {{"width", 32}}}}, false));
    made->saves().save(teacher_);
  }

  json with_teacher(json more = json::object()) const {
    more["teacher"].update({{"from", teacher_}, {"top", kTop}, {"weight", 0.5}, {"temperature", 2}});
    return more;
  }
  config::ConfigTree config(const json& more, bool has_data = true) const {
    json c = json::parse(R"({
      "seed": 7, "cpu": {"threads": 1},
      "model": {"vocab_size": 53, "context": 16, "layers": 2, "width": 24, "heads": 4, "kv_heads": 2, "mlp_width": 40,
                "dropout": {"residual": 0.1}},
      "batch": {"micro_batch": 2, "global_batch": 12, "sequence": 12},
      "optimizer": {"learning_rate": 0.003}, "train": {"steps": 6, "eval_every": 0}})");
    if (has_data) c["data"] = {{"format", "prepared"}, {"path", rows_}, {"validation_fraction", 0.2}};
    c.merge_patch(more);
    return config::ConfigTree::from_json(c.dump());
  }
  std::unique_ptr<Trainer> make(const config::ConfigTree& config, int32_t ranks = 1) {
    return Trainer::create(config, false, &cancel_, ranks > 1 ? comm::make_local(ranks) : nullptr);
  }

  /// Rows of the dataset, with the documents that they have.
  struct Batch {
    int64_t rows;
    std::vector<int32_t> tokens, targets, positions, kv_begin, ids;
    std::vector<float> logprobs;
    BatchView view() const {
      return {rows,    kCols,   tokens.data(), targets.data(), kv_begin.data(),
              nullptr, nullptr, kTop,          ids.data(),     logprobs.data()};
    }
  };
  static Batch read(const data::Dataset& dataset, Split split, uint64_t first, int64_t count) {
    const auto n = static_cast<size_t>(count * kCols), pairs = n * kTop;
    Batch b{count,
            std::vector<int32_t>(n),
            std::vector<int32_t>(n),
            std::vector<int32_t>(n),
            std::vector<int32_t>(n),
            std::vector<int32_t>(pairs, -1),
            std::vector<float>(pairs, NAN)};
    dataset.read(split, first,
                 {b.tokens.data(), b.targets.data(), b.positions.data(), b.kv_begin.data(), count, kCols});
    return b;
  }

  ScratchFolder folder_;
  std::string rows_, teacher_;
  std::atomic<bool> cancel_{false};
};

TEST_F(TeacherPass, DataAndPushedRowsGiveTheSameBits) {
  const auto teacher = make(
      config({{"init", {{"from", teacher_}}}, {"model", {{"width", 32}}}, {"train", {{"steps", 1}}}}, false));
  for (const auto& [layout, ranks] : {std::pair<const char*, int32_t>{"{}", 1},
                                      {R"({"mesh": {"dp_shard": 3}, "zero": {"stage": 2}})", 3}}) {
    json pushed_config = with_teacher(json::parse(layout));
    pushed_config["teacher"].erase("from");
    const auto from_data = make(config(with_teacher(json::parse(layout))), ranks);
    const auto pushed = make(config(pushed_config, false), ranks);
    for (uint64_t step = 0; step < 4; ++step) {
      Batch batch = read(*from_data->dataset(), Split::kTrain, step * 12, 12);
      teacher->inference().top_logprobs(batch.view(), kTop, batch.ids, batch.logprobs);
      pushed->push(batch.view());
      const StepResult a = from_data->train_step(), b = pushed->train_step();
      EXPECT_EQ(a.loss, b.loss) << layout << step;
      EXPECT_EQ(a.grad_norm, b.grad_norm);
    }
    testing::expect_equal_tensors(*from_data, *pushed);
  }
}

TEST_F(TeacherPass, EveryLayoutComputesTheSamePairs) {
  const auto one = make(config(with_teacher()));
  const data::TeacherPairs& expected = one->dataset()->teacher();
  EXPECT_EQ(expected.begins.size(), static_cast<size_t>(one->dataset()->train_samples()) + 1);
  EXPECT_EQ(static_cast<int64_t>(expected.ids.size()), expected.begins.back() * kTop);
  for (const auto& [layout, ranks] :
       {std::pair<const char*, int32_t>{R"({"mesh": {"dp_shard": 3}, "zero": {"stage": 3}})", 3},
        {R"({"mesh": {"pp": 2}})", 2},
        {R"({"mesh": {"tp": 2}})", 2},
        {R"({"mesh": {"cp": 2, "dp_shard": 2}, "batch": {"global_batch": 8}})", 4}}) {
    const auto trainer = make(config(with_teacher(json::parse(layout))), ranks);
    const data::TeacherPairs& found = trainer->dataset()->teacher();
    EXPECT_EQ(found.begins, expected.begins);
    EXPECT_EQ(found.ids, expected.ids) << layout;
    ASSERT_EQ(found.logprobs.size(), expected.logprobs.size());
    for (size_t i = 0; i < found.logprobs.size(); ++i)
      EXPECT_NEAR(found.logprobs[i], expected.logprobs[i], 1e-5) << layout;
  }
}

TEST_F(TeacherPass, AResumedRunReadsThePairsAndGivesTheSameBits) {
  const auto with = [&](const std::string& name) {
    return config(with_teacher({{"checkpoint", {{"path", folder_.file(name)}, {"every", 3}}}}));
  };
  const auto whole = make(with("whole"));
  whole->loop().run(6, nullptr);
  const auto half = make(with("run"));
  EXPECT_FALSE(half->teacher().read);
  half->loop().run(3, nullptr);
  for (const bool kept : {true, false}) {
    if (!kept) std::filesystem::remove(folder_.file("run") + "/teacher.safetensors");
    const auto resumed = make(with("run"), 1);
    EXPECT_EQ(resumed->teacher().read, kept);
    resumed->loads().load(folder_.file("run/step-3"), false);
    EXPECT_EQ(resumed->dataset()->teacher().ids, whole->dataset()->teacher().ids);
    EXPECT_EQ(resumed->dataset()->teacher().logprobs, whole->dataset()->teacher().logprobs);
    for (int step = 0; step < 3; ++step) resumed->train_step();
    testing::expect_equal_tensors(*whole, *resumed);
  }
}

TEST_F(TeacherPass, AFileOfAnotherTeacherOrNumberOfIdsIsIgnoredAndADamagedOneIsRefused) {
  const json kept = {{"checkpoint", {{"path", folder_.file("run")}}}};
  make(config(with_teacher(kept)))->loop().run(1, nullptr);
  json other = with_teacher(kept);
  other["teacher"]["top"] = 3;
  EXPECT_FALSE(make(config(other))->teacher().read);
  other["teacher"]["top"] = kTop, other["teacher"]["temperature"] = 1;
  EXPECT_TRUE(make(config(other))->teacher().read) << "the pairs do not depend on the temperature";
  const std::string another = folder_.file("another");
  make(config({{"seed", 5}}, false))->saves().save(another);
  other["teacher"]["from"] = another;
  EXPECT_FALSE(make(config(other))->teacher().read) << "the pairs are of another teacher";
  const std::string path = folder_.file("run") + "/teacher.safetensors";
  std::string bytes = testing::text_of_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  data::expect_error(Code::kCheckpointCorrupt, {"teacher.safetensors", "remove it"},
                     [&] { make(config(with_teacher(kept))); });
}

TEST_F(TeacherPass, EvaluationsReportTheCrossEntropy) {
  const auto taught = make(config(with_teacher())), plain = make(config(json::object()));
  EXPECT_EQ(taught->inference().eval(nullptr, 0).loss, plain->inference().eval(nullptr, 0).loss);
}

TEST_F(TeacherPass, ATeacherOfAnotherVocabularyIsRefused) {
  const std::string other = folder_.file("other");
  make(config({{"model", {{"vocab_size", 60}}}}, false))->saves().save(other);
  json c = with_teacher();
  c["teacher"]["from"] = other;
  data::expect_error(Code::kConfigInvalid, {"/teacher/from", "vocabulary of 60", "has 53"},
                     [&] { make(config(c)); });
  c["teacher"]["from"] = folder_.file("nowhere");
  data::expect_error(Code::kNotFound, {"/teacher/from", "nowhere", "neither a checkpoint"},
                     [&] { make(config(c)); });
}

}  // namespace teacher_pass_test
}  // namespace hawser::train
