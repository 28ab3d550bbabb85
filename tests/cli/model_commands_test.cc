// Tests eval, generate, inspect, verify and convert on a run.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace model_commands_test {

class ModelCommands : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    succeed("train config.json --data text.txt --out run");
  }
};

TEST_F(ModelCommands, EvalTakesRunFoldersCheckpointsAndHuggingFaceFolders) {
  const auto loss = [&](const std::string& model) {
    return nlohmann::json::parse(succeed("eval " + model + " --data text.txt --json").out)
        .at("loss")
        .get<double>();
  };
  const double of_run = loss("run");
  EXPECT_GT(of_run, 0.5);
  EXPECT_LT(of_run, 5.6);
  EXPECT_EQ(loss("run/checkpoints/step-20"), of_run);
  EXPECT_NE(loss("run/checkpoints/step-10"), of_run);
  EXPECT_NE(succeed("eval run --data text.txt").out.find("perplexity"), std::string::npos);
  refused("eval run --data missing.txt", {"missing.txt"});
  refused("eval missing --data text.txt", {"missing"});
  refused("eval text.txt --data text.txt", {"text.txt"});
  refused("eval run --data text.txt --sequence 33", {"--sequence 33", "32"});
  refused("eval run --data text.txt --sequence 0", {"\"0\" is not a whole number of at least 1"});
}

TEST_F(ModelCommands, AverageWritesTheMeanOfTheCheckpointsOfARange) {
  const auto loss = [&](const std::string& model) {
    return nlohmann::json::parse(succeed("eval " + model + " --data text.txt --json").out)
        .at("loss")
        .get<double>();
  };
  const std::string said = succeed("average run --steps 10..20 mean").out;
  EXPECT_NE(said.find("mean of steps 10, 20 -> checkpoint mean"), std::string::npos) << said;
  succeed("average run/checkpoints --weights 1e-9,1 last");
  EXPECT_NEAR(loss("last"), loss("run/checkpoints/step-20"), 1e-6);
  EXPECT_NE(loss("mean"), loss("last"));
  EXPECT_LT(loss("mean"), loss("run/checkpoints/step-10"));
  succeed("convert mean folder");
  EXPECT_EQ(loss("folder"), loss("mean"));
  refused("average run mean", {"mean", "exists"});
  refused("average run --steps 11..20 other",
          {"two checkpoints", "the range contains steps 20", "all steps: 10, 20"});
  for (const char* steps : {"10", "20..10", "a..b", "-1..20", "10.."})
    refused(std::string("average run other --steps ") + steps, {"800..1000"});
  refused("average run --weights 1 other", {"1 numbers for 2 checkpoints"});
  refused("average run --weights 1,-1 other", {"above 0"});
  refused("average text.txt other", {"text.txt"});
}

TEST_F(ModelCommands, ConvertWritesTheMovingAverage) {
  succeed("train config.json --data text.txt --out averaged --set /optimizer/average=0.9");
  const auto loss = [&](const std::string& model) {
    return nlohmann::json::parse(succeed("eval " + model + " --data text.txt --json").out)
        .at("loss")
        .get<double>();
  };
  succeed("convert averaged folder --average");
  EXPECT_EQ(loss("folder"), loss("averaged --average"));
  EXPECT_NE(loss("folder"), loss("averaged"));
  const std::string prompt = " --prompt 'the rope' --max-tokens 40 --temperature 0";
  EXPECT_EQ(succeed("generate averaged --average" + prompt).out, succeed("generate folder" + prompt).out);
  succeed("convert averaged model.gguf --average");
  succeed("convert averaged plain.gguf");
  EXPECT_NE(read_text(path("model.gguf")), read_text(path("plain.gguf")));

  refused("convert run other --average", {"/optimizer/average"});
  refused("convert folder other --average", {"--average is for checkpoints", "folder"});
  succeed(
      "train folder --data text.txt --lora --out tuned --set /optimizer/average=0.9 --set /train/steps=5");
  succeed("convert tuned adapter --adapter");
  succeed("convert tuned averages --adapter --average");
  EXPECT_NE(read_text(path("adapter/adapter_model.safetensors")),
            read_text(path("averages/adapter_model.safetensors")));
}

TEST_F(ModelCommands, TrainFollowsATeacherWhoseRowsAreKept) {
  const std::string config = " --set /teacher/top=8 --set /train/steps=20";
  const std::string said =
      succeed("train config.json --data text.txt --teacher run --out student" + config).out;
  EXPECT_NE(said.find("teacher"), std::string::npos) << said;
  const std::string kept = path("student/checkpoints/teacher.safetensors"), rows = read_text(kept);
  EXPECT_FALSE(rows.empty());
  const auto written = std::filesystem::last_write_time(kept);
  succeed("train --resume student --set /train/steps=22 --set /schedule/decay_steps=20");
  EXPECT_EQ(read_text(kept), rows);
  EXPECT_EQ(std::filesystem::last_write_time(kept), written);
  EXPECT_NE(read_text(path("student/metrics.jsonl")), read_text(path("run/metrics.jsonl")));
  refused("train config.json --data text.txt --teacher missing --out other", {"missing"});
}

TEST_F(ModelCommands, GenerateContinuesTextAndTokens) {
  const std::string text = succeed("generate run --prompt 'the rope' --max-tokens 60 --temperature 0").out;
  EXPECT_TRUE(text.starts_with("the rope")) << text;
  EXPECT_EQ(text.size(), 8u + 60u + 1u) << "longer than the context of 32";
  EXPECT_EQ(succeed("generate run --prompt 'the rope' --max-tokens 60 --temperature 0 --seed 5").out, text);
  const std::string tokens = succeed("generate run --tokens 116,104,101 --max-tokens 5 --temperature 0").out;
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), ','), 4) << tokens;
  const std::string sampled = " --prompt x --max-tokens 40 --temperature 1 --top-k 50 --top-p 0.9 --seed ";
  EXPECT_EQ(succeed("generate run" + sampled + "1").out, succeed("generate run" + sampled + "1").out);
  EXPECT_NE(succeed("generate run" + sampled + "1").out, succeed("generate run" + sampled + "2").out);
  const std::string long_prompt(100, 'a');
  EXPECT_TRUE(succeed("generate run --max-tokens 3 --prompt " + long_prompt).out.starts_with(long_prompt));
}

TEST_F(ModelCommands, GenerateRefusesWhatItCannotContinue) {
  refused("generate run", {"--prompt", "--tokens"});
  refused("generate run --prompt ''", {"empty"});
  refused("generate run --tokens 1,x", {"1,x"});
  refused("generate run --tokens 1,999", {"999"});
  for (const char* number :
       {"--temperature -1", "--temperature nan", "--top-p 0", "--top-p 1.5", "--top-k -1", "--max-tokens 0",
        "--seed -1", "--seed 18446744073709551616", "--stop-token -2"}) {
    const std::string flag = std::string(number).substr(0, std::string(number).find(' '));
    EXPECT_EQ(refused(std::string("generate run --prompt a ") + number, {flag}).out, "") << number;
  }
  succeed("generate run --prompt a --max-tokens 1 --seed 18446744073709551615");
  refused("generate missing --prompt a", {"missing"});
}

/// An adapter is trained with the run as its base. It is then merged, exported and trained further.
TEST_F(ModelCommands, AnAdapterIsTrainedMergedAndExported) {
  succeed("convert run base");
  std::string base_card = read_text(path("base/README.md"));
  EXPECT_NE(base_card.find("license: unknown"), std::string::npos) << base_card;
  write_text(path("base/README.md"), base_card.replace(base_card.find("unknown"), 7, "mit"));
  const std::string data =
      " --data text.txt --lora --set /adapter/rank=4 --set /train/steps=20 --set /batch/micro_batch=4";
  succeed("train base" + data + " --out tuned");
  const auto loss = [&](const std::string& model) {
    return nlohmann::json::parse(succeed("eval " + model + " --data text.txt --json").out)
        .at("loss")
        .get<double>();
  };
  EXPECT_LT(loss("tuned"), loss("base"));
  EXPECT_NE(succeed("merge tuned merged").out.find("loaded again: logits differ by at most"),
            std::string::npos);
  EXPECT_NEAR(loss("merged"), loss("tuned"), 1e-5);
  const double tuned = loss("tuned");
  fs::rename(path("base"), path("moved"));
  refused("eval tuned --data text.txt", {"base has no model", "/init/base"});
  succeed("merge tuned again --onto moved");
  fs::rename(path("moved"), path("base"));
  EXPECT_NEAR(loss("again"), tuned, 1e-5);
  succeed("convert tuned peft --adapter");
  EXPECT_NE(read_text(path("peft/adapter_config.json")).find("\"r\": 4"), std::string::npos);
  const std::string card = read_text(path("peft/README.md"));
  for (const char* words :
       {"license: mit", "library_name: peft", "- lora", "rank 4", "text.txt", "| steps | 20, "})
    EXPECT_NE(card.find(words), std::string::npos) << words << " is not in\n" << card;
  EXPECT_NE(read_text(path("merged/README.md")).find("library_name: transformers"), std::string::npos);
  succeed(
      "train base --data text.txt --lora --set /adapter/from=peft --set /train/steps=1 --set "
      "/batch/micro_batch=4 --out more");
  EXPECT_NEAR(loss("more"), loss("tuned"), 0.05);
  succeed(
      "train base --data text.txt --qlora --dora --set /adapter/rank=4 --set /train/steps=20 --set "
      "/batch/micro_batch=4 --out small");
  EXPECT_NE(succeed("merge small decoded").out.find("decoded from nf4"), std::string::npos);
  EXPECT_NEAR(loss("decoded"), loss("small"), 1e-5);
  succeed("merge small onto --onto base");
  EXPECT_NEAR(loss("onto"), loss("small"), 0.1);
  EXPECT_NE(loss("onto"), loss("decoded"));
  succeed("convert small dora --adapter");
  EXPECT_NE(read_text(path("dora/adapter_config.json")).find("\"use_dora\": true"), std::string::npos);
  refused("merge run other", {"run", "no adapter"});
  refused("merge base other", {"base", "Hugging Face folder"});
  refused("merge tuned merged", {"merged", "already exists"});
  refused("convert tuned other --adapter --dtype f32", {"--dtype"});
  EXPECT_FALSE(fs::exists(path("other")));
}

TEST_F(ModelCommands, InspectAndVerify) {
  const auto inspected = nlohmann::json::parse(succeed("inspect run --json").out);
  EXPECT_EQ(inspected.at("step"), 20);
  EXPECT_NE(succeed("inspect run/checkpoints/step-10").out.find("step: 10"), std::string::npos);
  succeed("verify run");
  for (const auto& entry : fs::directory_iterator(path("run/checkpoints/step-10"))) {
    if (entry.path().extension() != ".safetensors") continue;
    std::string bytes = read_text(entry.path());
    bytes[bytes.size() - 5] ^= 1;
    write_text(entry.path(), bytes);
  }
  refused("verify run/checkpoints/step-10", {"safetensors"});
  refused("inspect text.txt", {"text.txt"});
  refused("verify missing", {"missing"});
}

TEST_F(ModelCommands, ConvertGoesBothWays) {
  succeed("convert run hf");
  EXPECT_TRUE(fs::exists(path("hf/config.json")));
  EXPECT_TRUE(fs::exists(path("hf/model.safetensors")));
  refused("convert run hf", {"hf", "exists"});
  succeed("convert hf imported");
  succeed("convert imported hf-again");
  EXPECT_EQ(read_text(path("hf/model.safetensors")), read_text(path("hf-again/model.safetensors")));
  const std::string greedy = " --tokens 116,104,101 --max-tokens 20 --temperature 0";
  const std::string ids = succeed("generate run" + greedy).out;
  EXPECT_EQ(succeed("generate imported" + greedy).out, ids);
  EXPECT_EQ(succeed("generate hf" + greedy).out, ids);
  for (const char* file : {"hf/tokenizer_config.json", "hf/tokenizer.json"}) fs::remove(path(file));
  refused("generate hf --prompt text", {"--tokens"});
  succeed("convert run hf16 --dtype bf16");
  EXPECT_LT(fs::file_size(path("hf16/model.safetensors")), fs::file_size(path("hf/model.safetensors")));
  refused("convert hf x --dtype bf16", {"--dtype"});
  refused("convert run x --ignore-key k", {"--ignore-key"});
  EXPECT_FALSE(fs::exists(path("x")));
  EXPECT_FALSE(fs::exists(path("hf-again/README.md"))) << "no run, so nothing to say";
}

TEST_F(ModelCommands, ConvertWritesFilesForLlamaCpp) {
  EXPECT_NE(succeed("convert run run.gguf --dtype bf16").out.find("GGUF file"), std::string::npos);
  succeed("convert run hf");
  succeed("convert hf hf.gguf --dtype bf16");
  EXPECT_EQ(read_text(path("run.gguf")).substr(0, 4), "GGUF");
  EXPECT_TRUE(read_text(path("run.gguf")) == read_text(path("hf.gguf")));
  refused("convert run run.gguf", {"run.gguf", "exists"});
  refused("convert run other --dtype q8_0", {"q8_0", ".gguf"});
  refused("convert run adapter.gguf --adapter", {"adapter"});
  EXPECT_FALSE(fs::exists(path("other")) || fs::exists(path("adapter.gguf")));
}

TEST_F(ModelCommands, UnknownKeysOfAHuggingFaceConfigCanBeIgnoredOneByOne) {
  succeed("convert run hf");
  auto config = nlohmann::json::parse(read_text(path("hf/config.json")));
  config["strange_scaling"] = 2;
  write_text(path("hf/config.json"), config.dump());
  refused("convert hf imported", {"strange_scaling"});
  EXPECT_FALSE(fs::exists(path("imported")));
  succeed("convert hf imported --ignore-key strange_scaling");
}

TEST_F(ModelCommands, FineTuneStartsFromARun) {
  succeed(
      "train run/checkpoints/step-20 --data text.txt --set /train/steps=2 --out "
      "tuned");
  const auto rows = metric_rows(folder_ / "tuned");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_LT(rows[0].at("loss").get<double>(), metric_rows(folder_ / "run").front().at("loss").get<double>());
}

}  // namespace model_commands_test
}  // namespace hawser::cli_test
