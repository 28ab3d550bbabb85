// Tests what the command suggests for options and keys of other programs, and for typing errors.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace suggestions_test {

using Meant = CommandTest;

TEST_F(Meant, OptionsOfOtherProgramsAreAnsweredWithTheField) {
  const std::pair<const char*, const char*> options[] = {
      {"--steps 100", "did you mean --set /train/steps=100?"},
      {"--steps=100", "did you mean --set /train/steps=100?"},
      {"--lr 3e-4", "did you mean --set /optimizer/learning_rate=3e-4?"},
      {"--learning-rate 3e-4", "did you mean --set /optimizer/learning_rate=3e-4?"},
      {"--batch 8", "did you mean --set /batch/micro_batch=8?"},
      {"--batch-size 8", "did you mean --set /batch/micro_batch=8?"},
      {"--seed 7", "did you mean --set /seed=7?"},
      {"--precision bf16", "did you mean --set /precision=bf16?"},
      {"--optimizer adamw", "did you mean --set /optimizer/kind=adamw?"},
      {"--epochs 3", "did you mean --set /train/epochs=3?"},
      {"--output_dir x", "hawser train CONFIG --out DIR"},
      {"--model x", "hawser explain /model"},
  };
  for (const auto& [option, says] : options) {
    refused(std::string("train config.json --data text.txt ") + option, {says});
    refused(std::string("launch -n 2 train config.json ") + option, {says});
  }
  EXPECT_EQ(refused("train config.json --qwertz 3", {"--qwertz"}).err.find("did you mean"),
            std::string::npos);
}

TEST_F(Meant, AValueBelongsToItsOption) {
  refused("train --epochs 3 quickstart --data text.txt", {"did you mean --set /train/epochs=3?"});
  refused("train --lr 3e-4 config.json", {"did you mean --set /optimizer/learning_rate=3e-4?"});
}

TEST_F(Meant, UnknownCommandsAreAnsweredWithOneThatExists) {
  const std::pair<const char*, const char*> commands[] = {
      {"tarin", "train"},     {"trian", "train"},       {"finetune", "train"},  {"evaluate", "eval"},
      {"evl", "eval"},        {"generte", "generate"},  {"sample", "generate"}, {"export", "convert"},
      {"presest", "presets"}, {"preprocess", "prepare"}};
  for (const auto& [word, meant] : commands)
    refused(std::string(word) + " x",
            {"there is no command \"" + std::string(word) + "\"; did you mean hawser " + meant +
             "? The commands are train, launch"});
  refused("log run --to wandb", {"python -m hawser.log"});
  EXPECT_EQ(refused("qwertz", {"; the commands are train"}).err.find("did you mean"), std::string::npos);
}

/// Numbers, plurals and help read as a person would write them.
TEST_F(Meant, OutputIsWrittenForPeople) {
  EXPECT_NE(succeed("explain config.json /optimizer/learning_rate --set /objective/kind=dpo --set "
                    "/adapter/rank=8 --set "
                    "/optimizer/learning_rate=9.999999999999999e-06")
                .out.find("= 1e-05"),
            std::string::npos);
  for (const char* command : {"train", "prepare"})
    EXPECT_EQ(succeed(std::string(command) + " --help").out.find("{false}"), std::string::npos);
  succeed("train config.json --data text.txt --set /train/steps=2 --set /schedule/warmup_steps=0 --out few");
  EXPECT_NE(read_text(path("few/report.html")).find("1 micro-batch per step"), std::string::npos);
  write_text(path("words.txt"), std::string(3000, 'x') + " " + std::string(3000, 'y'));
  const std::string eval = succeed("eval few --data words.txt").out;
  EXPECT_NE(eval.find("word perplexity inf"), std::string::npos) << eval;
  refused("prepare nosuch --data text.txt -o rows", {"nosuch: no such file or directory"});
}

TEST_F(Meant, KeysOfOtherProgramsAreAnsweredWithTheField) {
  write_text(path("foreign.json"), R"({"preset": "quickstart", "epochs": 3, "output_dir": "x", "bf16": true,
      "train": {"gradient_checkpointing": true, "warmup_ratio": 0.1, "save_every": 5, "learning_rate": 1}})");
  refused("train foreign.json --data text.txt",
          {"/epochs: unknown key \"epochs\"; did you mean /train/epochs?", "--out DIR",
           "did you mean /precision? give \"bf16\"", "/train/gradient_checkpointing",
           "did you mean /recompute/policy?", "did you mean /schedule/warmup_steps?",
           "did you mean /checkpoint/every?", "did you mean /optimizer/learning_rate?"});
}

TEST_F(Meant, AConfigMayNameItsSchema) {
  auto config = nlohmann::json::parse(read_text(path("config.json")));
  config["$schema"] = "./schema.json";
  config["train"]["steps"] = 1;
  config["schedule"]["warmup_steps"] = 0;
  write_text(path("with.json"), config.dump());
  succeed("train with.json --data text.txt --out run");
  EXPECT_FALSE(nlohmann::json::parse(read_text(path("run/config.json"))).contains("$schema"));
  EXPECT_TRUE(nlohmann::json::parse(succeed("schema").out).at("properties").contains("$schema"));
  write_text(path("deep.json"), R"({"model": {"$schema": "x"}})");
  refused("train deep.json --data text.txt", {"/model/$schema"});
}

TEST_F(Meant, FilesAndFoldersThatAreNoConfig) {
  refused("train text.txt", {"text.txt is not a config", "hawser train quickstart --data text.txt"});
  write_text(path("notes"), "It was a dark night");
  refused("train notes --out x", {"notes is not a config", "--data notes"});
  write_text(path("data.jsonl"), "{\"text\": \"a\"}\n");
  refused("plan data.jsonl", {"data.jsonl is not a config"});
  refused("train config.jsn --data text.txt", {"config.jsn", "did you mean config.json?"});
  refused("train ./cofig.json --data text.txt", {"cannot open ./cofig.json", "did you mean ./config.json?"});
  EXPECT_EQ(refused("train none.json", {"none.json"}).err.find("did you mean"), std::string::npos);
  write_text(path("model.safetensors"), "");
  refused("train model.safetensors --data text.txt", {"weights", "folder"});
  succeed("train config.json --data text.txt --set /train/steps=1 --set /schedule/warmup_steps=0 --out run1");
  refused("train run1", {"run1 is the folder of a run", "hawser train --resume run1"});
  refused("plan run1", {"run1/config.json"});
}

TEST_F(Meant, ExplainKnowsAFieldByItsNameAlone) {
  refused("explain mlp_width", {"did you mean: hawser explain /model/mlp_width?"});
  refused("explain config.json mlp_width", {"did you mean: hawser explain /model/mlp_width?"});
  refused("explain n_layer", {"hawser explain /model/layers?"});
  refused("explain config.json qwertz", {"\"qwertz\" is neither"});
  refused("explain quickstat", {"quickstart"});
  succeed("explain quickstart /model/mlp_width");
}

TEST_F(Meant, InspectShowsAHuggingFaceFolder) {
  succeed("train config.json --data text.txt --set /train/steps=1 --set /schedule/warmup_steps=0 --out run");
  succeed("convert run hf");
  const std::string out = succeed("inspect hf").out;
  EXPECT_NE(out.find("Hugging Face folder: hf"), std::string::npos) << out;
  EXPECT_NE(out.find("layers: 1"), std::string::npos) << out;
  EXPECT_NE(out.find("hawser convert hf CHECKPOINT"), std::string::npos) << out;
  EXPECT_EQ(nlohmann::json::parse(succeed("inspect hf --json").out).at("model").at("width"), 32);
  refused("verify hf", {"no digests", "hawser convert hf"});
}

TEST_F(Meant, PlanSaysWhetherItFitsHere) {
  EXPECT_NE(succeed("plan config.json").out.find("fits here       yes: "), std::string::npos);
  const auto large = nlohmann::json::parse(succeed("plan llama-3.1-405b --json").out).at("fits");
  EXPECT_FALSE(large.at("one_rank"));
  EXPECT_GT(large.at("needed_bytes").get<double>(), large.at("available_bytes").get<double>());
  EXPECT_NE(succeed("plan llama-3.1-405b").out.find("fits here       no: it needs "), std::string::npos);
  const std::string ranks = succeed("plan config.json --set /mesh/dp_shard=2 --set /batch/micro_batch=2").out;
  EXPECT_NE(ranks.find("fits here       yes, all 2 ranks: "), std::string::npos) << ranks;
}

}  // namespace suggestions_test
}  // namespace hawser::cli_test
