// Tests that inputs that would give a useless model are refused unless explicitly allowed, and that an export
// describes the text that its model reads.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace nonsense_test {

class Nonsense : public CommandTest {
 protected:
  /// Makes a Hugging Face folder "hf" of a byte model and adds a tokenizer of another program.
  void make_foreign_model() const {
    succeed(
        "train config.json --data text.txt --set /train/steps=1 --set /schedule/warmup_steps=0 --out run");
    succeed("convert run hf");
    fs::remove(path("hf/tokenizer.json"));
    write_text(path("hf/tokenizer.model"), "a form that only other programs read");
    fs::remove(path("hf/tokenizer_config.json"));
  }
};

TEST_F(Nonsense, AModelWithATokenizerTakesNoTextUnlessItIsSaidTwice) {
  make_foreign_model();
  const std::string train = "train hf --data text.txt --set /train/steps=1 ";
  const std::vector<std::string> says = {"/data/format", "hf", "tokenizer.model", "\"tokens\"", "data.as_is"};
  refused(train, says);
  refused(train + "--set /data/vocabulary=bytes --out new", says);
  refused("train config.json --set /model=\"{}\" --set /init/from=hf --data text.txt", says);
  refused("eval hf --data text.txt", says);
  EXPECT_FALSE(fs::exists(path("new")));
  succeed("convert hf imported");  // the checkpoint includes the tokenizer
  refused("train imported --data text.txt --set /data/vocabulary=bytes", {"tokenizer.model", "data.as_is"});
  refused(train + "--set /data/as_is=true", {"/data/vocabulary"});
  succeed(train + "--set /data/vocabulary=bytes --set /data/as_is=true --out new");
  succeed("convert new exported");  // the tokenizer is that of the text it was trained on
  EXPECT_NE(read_text(path("exported/tokenizer_config.json")).find("\"bytes\""), std::string::npos);
  write_text(path("tokens.u16"), std::string(4000, '\0'));
  succeed("train hf --data tokens.u16 --set /train/steps=1");
}

TEST_F(Nonsense, AFileThatIsNoTextIsRefusedUnlessItIsSaidTwice) {
  std::string lines;
  while (lines.size() < 4000) lines += "{\"text\": \"the rope pulls a ship\"}\n";
  write_text(path("data.jsonl"), lines);
  write_text(path("data.gz"), "\x1f\x8b" + std::string(4000, 'x'));
  for (const char* vocabulary : {"bytes", "characters"}) {
    const std::string sets =
        std::string(" --set /train/steps=1 --set /schedule/warmup_steps=0 --set /data/vocabulary=") +
        vocabulary;
    refused("train config.json --data data.jsonl --out new" + sets,
            {"data.jsonl", "JSON Lines", "data.as_is"});
    refused("train config.json --data data.gz" + sets, {"data.gz", "gzip", "decompress"});
    succeed("train config.json --data data.jsonl --set /data/as_is=true" + sets);
  }
  EXPECT_FALSE(fs::exists(path("new")));
}

TEST_F(Nonsense, AnExportOfAByteOrCharacterModelCarriesItsTokenizer) {
  for (const std::string kind : {"bytes", "characters"}) {
    succeed(
        "train config.json --data text.txt --set /train/steps=1 --set /schedule/warmup_steps=0 --set "
        "/data/vocabulary=" +
        kind + " --out " + kind);
    succeed("convert " + kind + " hf-" + kind);
    const auto tokenizer = nlohmann::json::parse(read_text(path("hf-" + kind + "/tokenizer.json")));
    const auto& words = tokenizer.at("model").at("vocab");
    EXPECT_EQ(words.at("t"), kind == "bytes" ? 116 : words.at("s").get<int>() + 1);
    EXPECT_EQ(words.contains("\u0120"), kind == "bytes") << "the space of byte-level tokenizers";
    // An imported model recognises the tokenizer: it generates text and can be trained further on text.
    const std::string greedy = " --prompt 'the rope' --max-tokens 12 --temperature 0";
    EXPECT_EQ(succeed("generate hf-" + kind + greedy).out, succeed("generate " + kind + greedy).out);
    succeed("train hf-" + kind + " --data text.txt --set /train/steps=1");
    succeed("convert hf-" + kind + " back-" + kind);
    EXPECT_EQ(succeed("generate back-" + kind + greedy).out, succeed("generate " + kind + greedy).out);
  }
}

/// The example has no biases. GPT-2 always has them, so they are exported as zeros.
TEST_F(Nonsense, TheShakespeareExampleHasAHuggingFaceForm) {
  const std::string example = HAWSER_EXAMPLES "/shakespeare.json";
  const std::string small =
      " --data text.txt --set /train/steps=3 --set /train/sample_every=0 --set /schedule/warmup_steps=1 ";
  EXPECT_NE(succeed("plan " + example + " --set /data/path=text.txt").out.find("GPT2LMHeadModel"),
            std::string::npos);
  EXPECT_NE(succeed("train " + example + small + "--out run").out.find("Hugging Face: GPT2LMHeadModel"),
            std::string::npos);
  succeed("convert run hf");
  const std::string greedy = " --prompt 'the rope' --max-tokens 40 --temperature 0";
  EXPECT_EQ(succeed("generate hf" + greedy).out, succeed("generate run" + greedy).out);
  const auto loss = [&](const std::string& model) {
    return nlohmann::json::parse(succeed("eval " + model + " --data text.txt --sequence 64 --json").out)
        .at("loss")
        .get<double>();
  };
  EXPECT_NEAR(loss("hf"), loss("run"), 1e-6);
}

TEST_F(Nonsense, PlanAndTrainSayWhatKeepsAModelFromHuggingFace) {
  const std::string odd =
      " --data text.txt --set /model/norm=rms_norm --set /train/steps=1 --set /schedule/warmup_steps=0";
  const std::string out = succeed("train config.json" + odd).out;
  EXPECT_NE(out.find("Hugging Face: none (gpt2: positions are not learned; llama, mistral"),
            std::string::npos)
      << out;
  const auto plan = nlohmann::json::parse(succeed("plan config.json --set /model/norm=rms_norm --json").out);
  EXPECT_TRUE(plan.at("hugging_face").get<std::string>().starts_with("none (gpt2: "))
      << plan.at("hugging_face");
  EXPECT_EQ(nlohmann::json::parse(succeed("plan llama-3.2-1b --json").out).at("hugging_face"),
            "LlamaForCausalLM");
  EXPECT_EQ(nlohmann::json::parse(succeed("plan mistral-7b --json").out).at("hugging_face"),
            "MistralForCausalLM");
}

}  // namespace nonsense_test
}  // namespace hawser::cli_test
