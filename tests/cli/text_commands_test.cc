// Tests runs with a tokenizer: a run that trains its own vocabulary, models that have one, and the end of a
// chat's answers.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace text_commands_test {

constexpr const char* kChatML =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class TextCommands : public CommandTest {
 protected:
  static constexpr const char* kBpe = " --set /data/vocabulary=bpe --set /data/vocab_size=300";

  std::string carried(const std::string& run, const std::string& file = "tokenizer.json") const {
    return read_text(path(run + "/checkpoints/step-20/extra/" + file));
  }
};

TEST_F(TextCommands, ARunLearnsItsVocabularyOnceAndCarriesIt) {
  const std::string config = std::string("train config.json --data text.txt") + kBpe;
  succeed(config + " --out whole");
  succeed(config + " --set /train/steps=10 --out halves");
  succeed("train --resume halves --set /train/steps=20");
  EXPECT_EQ(metric_rows(folder_ / "whole"), metric_rows(folder_ / "halves"));
  EXPECT_EQ(tensor_files(folder_ / "whole/checkpoints/step-20"),
            tensor_files(folder_ / "halves/checkpoints/step-20"));
  const std::string learned = carried("whole");
  EXPECT_GT(nlohmann::json::parse(learned).at("model").at("vocab").size(), 259u);
  EXPECT_EQ(carried("halves"), learned);
  const auto inspected = nlohmann::json::parse(succeed("inspect whole --json").out);
  EXPECT_EQ(inspected.at("model").at("vocab_size"), 300);

  write_text(path("other.txt"),
             read_text(path("text.txt")) + "Other words, other pairs: zebra zebra zebra zebra.\n");
  refused("train --resume halves --data other.txt --set /train/steps=30", {"other data"});
  succeed(
      "train --resume halves --data other.txt --other-data --set /train/steps=30 --set /checkpoint/every=30");
  EXPECT_EQ(read_text(path("halves/checkpoints/step-30/extra/tokenizer.json")), learned);
}

/// Each process trains the vocabulary itself, and the result depends only on the text.
TEST_F(TextCommands, RanksOfSeveralProcessesLearnTheSameVocabulary) {
  const std::string words = std::string("train config.json --data text.txt") + kBpe +
                            " --set /mesh/dp_shard=2 --set /zero/stage=2 --out ";
  succeed(words + "threads");
  succeed("launch -n 2 " + words + "processes");
  EXPECT_EQ(metric_rows(folder_ / "processes"), metric_rows(folder_ / "threads"));
  EXPECT_EQ(tensor_files(folder_ / "processes/checkpoints/step-20"),
            tensor_files(folder_ / "threads/checkpoints/step-20"));
  EXPECT_EQ(carried("processes"), carried("threads"));
}

TEST_F(TextCommands, AModelWithATokenizerReadsAndWritesText) {
  succeed(std::string("train config.json --data text.txt") + kBpe + " --out run");
  succeed("convert run model");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_EQ(read_text(path(std::string("model/") + file)), carried("run", file)) << file;

  const std::string said = succeed("generate model --prompt 'the ship' --max-tokens 20 --temperature 0").out;
  EXPECT_TRUE(said.starts_with("the ship")) << said;
  EXPECT_EQ(said, succeed("generate run --prompt 'the ship' --max-tokens 20 --temperature 0").out);
  const auto eval = nlohmann::json::parse(succeed("eval model --data text.txt --sequence 32 --json").out);
  EXPECT_LT(eval.at("loss").get<double>(), 5.0);
  EXPECT_LT(eval.at("tokens").get<int64_t>(), 6000);  // fewer tokens than half of the 12,000 bytes

  succeed("train model --data text.txt --set /train/steps=4 --out tuned --set /batch/micro_batch=2");
  refused("train model --data text.txt --set /data/vocabulary=bytes --set /train/steps=4",
          {"/data/vocabulary", "not on bytes"});
  auto larger = nlohmann::json::parse(read_text(path("model/tokenizer.json")));
  for (int i = 0; i < 200; ++i)
    larger["added_tokens"].push_back({{"id", 300 + i},
                                      {"content", "<more-" + std::to_string(i) + ">"},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", true}});
  write_text(path("model/tokenizer.json"), larger.dump());
  refused("generate model --prompt a", {"tokenizer.json has ", "embedding has 300 rows"});
}

TEST_F(TextCommands, TokenizersGoBothWays) {
  succeed("tokenizer train text.txt --vocab-size 300 --special '<|end|>' -o own.json");
  refused("tokenizer train text.txt --vocab-size 300 -o own.json", {"own.json exists"});
  refused("tokenizer train text.txt --vocab-size 100 -o small.json", {"give 256"});
  write_text(path("say.txt"), "the quay<|end|> caf\xc3\xa9");
  const std::string ids = succeed("tokenizer encode own.json say.txt").out;
  const std::string json = succeed("tokenizer encode own.json say.txt --json").out;
  EXPECT_EQ("[" + ids.substr(0, ids.size() - 1) + "]\n", json);
  write_text(path("ids"), ids);
  EXPECT_EQ(succeed("tokenizer decode own.json ids --special").out, "the quay<|end|> caf\xc3\xa9");
  EXPECT_EQ(succeed("tokenizer decode own.json ids").out, "the quay caf\xc3\xa9");
  write_text(path("ids"), json);
  EXPECT_EQ(succeed("tokenizer decode own.json ids").out, "the quay caf\xc3\xa9");
  write_text(path("ids"), "1,x");
  refused("tokenizer decode own.json ids", {"stopped at \"x\""});
  refused("tokenizer encode text.txt say.txt", {"text.txt"});
}

TEST_F(TextCommands, AChatStopsWhereTheModelLearnedTo) {
  std::string chats;
  for (int i = 0; i < 100; ++i)
    for (const auto& [question, answer] :
         {std::pair("Who pulls?", "The rope."), std::pair("Where?", "At the quay.")})
      chats += std::string("<|im_start|>user\n") + question + "<|im_end|>\n<|im_start|>assistant\n" + answer +
               "<|im_end|>\n";
  write_text(path("chats.txt"), chats);
  succeed(std::string("train config.json --data chats.txt") + kBpe +
          " --set /optimizer/learning_rate=0.01 --set /train/steps=150 --set /schedule/decay_steps=150 --set "
          "/model/layers=2 --set /model/context=64 --out run");
  succeed("convert run model");
  refused("chat model 'Who pulls?'", {"has no chat template"});
  write_text(path("model/chat_template.jinja"), kChatML);
  EXPECT_EQ(succeed("chat model 'Who pulls?' --temperature 0").out, "The rope.\n");
  EXPECT_EQ(succeed("chat model 'Where?' --temperature 0").out, "At the quay.\n");
  write_text(path("choices.jsonl"),
             R"({"query": "Where?", "choices": ["The rope.", "At the quay."], "gold": 1})"
             "\n"
             R"({"query": "Who pulls?", "choices": ["The rope.", "At the quay."], "gold": 0})"
             "\n");
  EXPECT_NE(succeed("eval model --choices choices.jsonl --chat").out.find("100.00 % right (acc)"),
            std::string::npos);
  refused("eval model --data chats.txt --chat", {"--chat is for --choices"});
  refused("eval run --choices choices.jsonl --chat", {"has no chat template"});
  write_text(path("question"), "Where?\n");
  const std::string piped = "cat question | " HAWSER_COMMAND " chat model --temperature 0";
  EXPECT_EQ(std::system(("cd '" + folder_.string() + "' && " + piped + " > answer").c_str()), 0);
  EXPECT_EQ(read_text(path("answer")), "At the quay.\n");
  refused("chat model", {"there is no question"});
  refused("chat model 'Who pulls?' --context 4", {"the conversation has", "4 fit"});
}

}  // namespace text_commands_test
}  // namespace hawser::cli_test
