// Tests what `hawser train MODEL_FOLDER --data rows.jsonl` chooses where the user sets nothing, and the
// warm-up of presets in short runs.
#include <set>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace usual_training_test {

using nlohmann::json;

class UsualTraining : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "the text module is not built";
    succeed(
        "train config.json --data text.txt --set /data/vocabulary=bpe --set /data/vocab_size=300 --set "
        "/model/context=512 --set /data/validation_fraction=0 --set /train/eval_every=0 --set /train/steps=1 "
        "--set "
        "/schedule/warmup_steps=0 --set /schedule/decay_steps=1 --out base");
    for (const char* type : {"f32", "bf16", "f16"})
      succeed(std::string("convert base/checkpoints/step-1 ") + type + " --dtype " + type);
  }

  void write_rows(int count) const {
    std::string rows;
    for (int i = 0; i < count; ++i)
      rows += json({{"prompt", "Who pulls " + std::to_string(i) + "?"}, {"completion", "The rope."}}).dump() +
              "\n";
    write_text(path("rows.jsonl"), rows);
  }

  CommandResult train(const std::string& words, const std::string& model = "f32") const {
    fs::remove_all(path("run"));
    const std::string sequence =
        words.find("/batch/sequence") == std::string::npos ? "--set /batch/sequence=32 " : "";
    return succeed("train " + model + " --data rows.jsonl --template plain --out run " + sequence + words);
  }
  json set() const { return json::parse(read_text(path("run/config.json"))); }
  json resolved() const { return json::parse(read_text(path("run/resolved.json"))); }

  static std::string chosen(const CommandResult& result) {
    std::string line;
    for (const std::string& one : lines_of(result.out))
      if (one.starts_with("chosen: ")) line += one;
    return line;
  }
  static void has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
};

TEST_F(UsualTraining, FewRowsAreReadThreeTimesAndNoneIsHeldOut) {
  write_rows(58);
  const std::string line = chosen(train("--no-packing"));
  has(line, "3 passes over the rows in 22 steps");  // 58 rows, 8 in a step
  has(line, "no rows held out for validation, because there are only 58");
  EXPECT_EQ(set().at("train"), json::parse(R"({"epochs": 3})"));
  EXPECT_EQ(resolved().at("data").at("validation_fraction"), 0);
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 22u);
}

TEST_F(UsualTraining, AHundredRowsAreValidatedTenTimesOnATenthAndTheBestIsKept) {
  for (const int count : {100, 119}) {
    SCOPED_TRACE(count);
    write_rows(count);
    const CommandResult result = train("--no-packing --set /batch/micro_batch=4");
    has(chosen(result), "3 passes over the rows");
    has(chosen(result), "the best kept as checkpoints/best");
    size_t validations = 0;
    const auto rows = metric_rows(folder_ / "run");
    ASSERT_FALSE(rows.empty());
    for (const json& row : rows)
      validations += row.contains("validation_loss") && row["validation_loss"].is_number();
    EXPECT_GE(validations, 10u);
    EXPECT_TRUE(rows.back().at("validation_loss").is_number()) << rows.back();
    EXPECT_TRUE(fs::exists(path("run/checkpoints/best")));
    const int64_t held = count / 10, trained = count - held;
    EXPECT_EQ(resolved().at("train").at("steps"), (3 * trained + 3) / 4);
  }
  has(chosen(train("--set /batch/sequence=512")), "because packed, they fill only");
}

TEST_F(UsualTraining, WhatTheUserSetsStays) {
  write_rows(120);
  EXPECT_EQ(chosen(train("--set /train/steps=4 --set /train/eval_every=2")), "");
  EXPECT_EQ(set().at("train"), json::parse(R"({"steps": 4, "eval_every": 2})"));
  has(chosen(train("--set /train/epochs=1 --no-packing")),
      "chosen: validation every step on 10% of the rows");
  EXPECT_EQ(set().at("train").at("epochs"), 1);
  write_rows(20);
  has(chosen(train("--no-packing --set /data/validation_fraction=0.2")), "validation every step");
  EXPECT_EQ(resolved().at("data").at("validation_fraction"), 0.2);
  has(chosen(train("--lora --set /data/validation_fraction=0")), "3 passes over the rows");
  EXPECT_EQ(resolved().at("train").at("eval_every"), 0);
}

TEST_F(UsualTraining, PairsAreReadOnce) {
  std::string pairs;
  for (int i = 0; i < 20; ++i)
    pairs += json({{"prompt", "Q" + std::to_string(i)}, {"chosen", "yes"}, {"rejected", "no"}}).dump() + "\n";
  write_text(path("rows.jsonl"), pairs);
  for (const std::string words : {"--dpo", "--set /objective/kind=dpo"}) {
    has(chosen(train(words + " --set /batch/micro_batch=2")), "1 pass over the rows in 20 steps");
    EXPECT_EQ(set().at("train"), json::parse(R"({"epochs": 1})"));
  }
}

TEST_F(UsualTraining, HalfPrecisionFoldersTrainInBf16) {
  write_rows(8);
  for (const std::string model : {"bf16", "f16"}) {
    const std::string line = chosen(train("", model));
    has(line, "precision bf16 with fp32 master weights, because the folder's weights are " +
                  std::string(model == "f16" ? "fp16" : "bf16"));
    EXPECT_EQ(set().at("precision"), "bf16");
    has(succeed("explain " + model + " /precision").out, "\"bf16\"");
  }
  EXPECT_EQ(chosen(train("--set /precision=fp32 --set /train/steps=1", "bf16")).find("precision"),
            std::string::npos);
  EXPECT_EQ(set().at("precision"), "fp32");
  train("", "f32");
  EXPECT_FALSE(set().contains("precision"));
}

/// A restart of an elastic run has what the first start chose.
TEST_F(UsualTraining, AnElasticRunGoesOnWithWhatWasChosen) {
  write_rows(120);
  const std::string words =
      "train bf16 --data rows.jsonl --template plain --no-packing --set /batch/sequence=32 --elastic --out "
      "run ";
  succeed(words);
  const json first = set();
  succeed(words);
  EXPECT_EQ(set(), first);
}

using PresetWarmup = CommandTest;

TEST_F(PresetWarmup, IsShorterInAShortRunAndAResumedRunKeepsIt) {
  const std::string small =
      "train quickstart --data text.txt --set /batch/micro_batch=1 --set /batch/sequence=32 --set "
      "/train/eval_every=0 ";
  const auto warmup = [&](const std::string& file) {
    return json::parse(read_text(path("run/" + file))).at("schedule").at("warmup_steps").get<int>();
  };
  for (const auto& [length, expected] :
       {std::pair{"--set /train/steps=16", 2}, {"--set /train/epochs=0.045", 2}}) {
    SCOPED_TRACE(length);
    fs::remove_all(path("run"));
    succeed(small + length + " --out run");
    EXPECT_EQ(warmup("config.json"), expected);
    EXPECT_EQ(warmup("resolved.json"), expected);
    succeed("train --resume run --set /train/steps=18");
    EXPECT_EQ(warmup("resolved.json"), expected);
  }
  write_text(path("small.json"), R"({"preset": "quickstart", "train": {"steps": 40}})");
  EXPECT_NE(succeed("explain small.json /schedule/warmup_steps").out.find("= 5"), std::string::npos);
  EXPECT_NE(succeed("explain quickstart /schedule/warmup_steps").out.find("= 60"), std::string::npos);
  refused(small + "--set /train/steps=40 --set /schedule/warmup_steps=60", {"60 warm-up steps do not fit"});
}

}  // namespace usual_training_test
}  // namespace hawser::cli_test
