// `hawser prepare`, and `hawser train MODEL --data chat.jsonl`: once, again, and on from where it stopped.
#include <filesystem>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace {

class PrepareCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "the text module is not built";
    write_text(path("letters.txt"), std::string(4000, 'a') + std::string(4000, 'b'));
    succeed(
        "train llama-3.2-1b --data letters.txt --out base --set /train/steps=1 --set "
        "/schedule/warmup_steps=0 "
        "--set /model/vocab_size=704 --set /data/vocabulary=characters --set /batch/sequence=32 "
        "--set /model/context=64 --set /model/layers=1 --set /model/width=32 --set /model/heads=2 "
        "--set /model/kv_heads=1 --set /model/head_dim=16 --set /model/mlp_width=32 "
        "--set /batch/micro_batch=2 --set /batch/grad_accum_steps=1");
    succeed("convert base model");
    std::filesystem::copy(HAWSER_TOKENIZER, path("model/tokenizer.json"),
                          std::filesystem::copy_options::overwrite_existing);
    write_text(path("model/tokenizer_config.json"), R"({"bos_token": "<s>", "eos_token": "</s>"})");
    std::string chats;
    for (int i = 0; i < 60; ++i)
      chats += R"({"messages": [{"role": "user", "content": "Say )" + std::to_string(i) +
               R"("}, {"role": "assistant", "content": "Well, )" + std::to_string(i) + "\"}]}\n";
    write_text(path("chat.jsonl"), chats);
  }
};

TEST_F(PrepareCommand, ReportsAndShowsWhatIsLearned) {
  const std::string out =
      succeed("prepare model --data chat.jsonl -o rows --sequence 32 --template plain --show 1").out;
  EXPECT_NE(out.find("60 rows (60 chat)"), std::string::npos) << out;
  EXPECT_NE(out.find("</s>]]"), std::string::npos) << "the end of an answer is learned:\n" << out;
  EXPECT_EQ(out.find("[[<s>"), std::string::npos) << out;
  EXPECT_NE(succeed("prepare rows").out.find("--- row 0 of"), std::string::npos);
  EXPECT_NE(succeed("prepare model --data chat.jsonl -o rows --sequence 32 --template plain")
                .out.find("there already"),
            std::string::npos);
}

TEST_F(PrepareCommand, TrainPreparesIntoTheRunAndResumesWithoutTheFile) {
  const std::string train =
      "train model --data chat.jsonl --template plain --out run --set /train/steps=2 "
      "--set /schedule/warmup_steps=0 --set /batch/sequence=32 --set /batch/micro_batch=2";
  EXPECT_NE(succeed(train).out.find("prepared: "), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path("run/data/prepared.json")));
  std::filesystem::remove(path("chat.jsonl"));
  EXPECT_NE(succeed("train --resume run --set /train/steps=4").out.find("step 4/4"), std::string::npos);
}

}  // namespace
}  // namespace hawser::cli_test
