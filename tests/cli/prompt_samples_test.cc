// Tests of /telemetry/samples: prompts that the model in training answers at each validation.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace prompt_samples_test {

using nlohmann::json;

class PromptSamples : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_config("prompts.json", {{{"text", "the rope"}}, {{"text", "a "}}});
    write_config("plain.json", json());
  }
  /// Writes the fixture's config with two layers and these samples.
  void write_config(const std::string& name, const json& samples, const json& more = json::object()) const {
    json config = CommandTest::config();
    config["model"]["layers"] = 2;
    if (!samples.is_null()) config["telemetry"] = {{"samples", samples}, {"sample_tokens", 6}};
    config.merge_patch(more);
    write_text(path(name), config.dump());
  }
  std::vector<json> answers(const std::string& run) const {
    std::vector<json> list;
    for (const std::string& line : lines_of(read_text(path(run + "/samples.jsonl"))))
      list.push_back(json::parse(line));
    return list;
  }
};

TEST_F(PromptSamples, AnswerAtEachValidationAndChangeNoBitOfTheTraining) {
  succeed("train plain.json --data text.txt --out plain");
  const std::string out = succeed("train prompts.json --data text.txt --out run").out;
  EXPECT_NE(out.find("--- sample 1 after step 10 ---"), std::string::npos) << out;
  EXPECT_EQ(metric_rows(path("run")), metric_rows(path("plain")));
  for (const char* step : {"step-10", "step-20"})
    EXPECT_EQ(tensor_files(path("run/checkpoints/" + std::string(step))),
              tensor_files(path("plain/checkpoints/" + std::string(step))));
  EXPECT_FALSE(fs::exists(path("plain/samples.jsonl")));

  const auto list = answers("run");
  ASSERT_EQ(list.size(), 8u);  // two prompts after steps 5, 10, 15 and 20
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].at("step"), 5 * (i / 2 + 1));
    EXPECT_EQ(list[i].at("sample"), i % 2);
    EXPECT_EQ(list[i].at("prompt"), (json{{"text", i % 2 == 0 ? "the rope" : "a "}}));
    EXPECT_EQ(list[i].at("tokens"), 6);
    EXPECT_EQ(list[i].at("ended"), false);
  }
  // The last answers are those of the last checkpoint.
  const std::string text =
      succeed("generate run/checkpoints/step-20 --prompt 'the rope' --max-tokens 6 --temperature 0").out;
  EXPECT_EQ(text, "the rope" + list[6].at("answer").get<std::string>() + "\n");
  const std::string report = read_text(path("run/report.html"));
  EXPECT_NE(report.find("<h2>Sample</h2><pre>the rope</pre>"), std::string::npos);
  EXPECT_NE(report.find("<summary>Earlier answers</summary>"), std::string::npos);
}

TEST_F(PromptSamples, AResumedRunHasEachAnswerOnce) {
  succeed("train prompts.json --data text.txt --out whole");
  succeed("train prompts.json --data text.txt --out run");
  for (const char* last : {"run/checkpoints/step-20", "run/checkpoints/best"}) fs::remove_all(path(last));
  write_text(path("run/samples.jsonl"), read_text(path("run/samples.jsonl")) + "{\"step\": 3");  // a crash
  succeed("train --resume run");
  EXPECT_EQ(answers("run"), answers("whole"));
  const std::string report = read_text(path("run/report.html"));
  EXPECT_NE(report.find("after step 5</p>"), std::string::npos) << "the report has the answers before, too";
}

TEST_F(PromptSamples, EveryLayoutAnswers) {
  const std::string words = "train prompts.json --data text.txt --set /train/steps=5 ";
  for (const char* layout : {"--set /mesh/dp_shard=2 --set /zero/stage=3", "--set /mesh/tp=2",
                             "--set /mesh/pp=2", "--set /mesh/cp=2"}) {
    fs::remove_all(path("run"));
    succeed(words + layout + " --out run");
    const auto list = answers("run");
    ASSERT_EQ(list.size(), 2u) << layout;
    for (const json& answer : list) EXPECT_EQ(answer.at("tokens"), 6) << layout;
  }
  const auto threads = answers("run");
  fs::remove_all(path("run"));
  succeed("launch -n 2 " + words + "--set /mesh/cp=2 --out run");
  EXPECT_EQ(answers("run"), threads) << "processes answer as threads do";
}

TEST_F(PromptSamples, AnswerOnceWithoutValidation) {
  write_config("never.json", {{{"text", "a "}}}, {{"train", {{"eval_every", 0}}}});
  succeed("train never.json --data text.txt --out run");
  const auto list = answers("run");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].at("step"), 20);
}

TEST_F(PromptSamples, AModelOfNumbersThatAreNotFiniteGivesNoAnswer) {
  // Weight decay multiplies the weights by about -10^6, which overflows the next gradient.
  write_config("wild.json", {{{"text", "a "}}},
               {{"optimizer", {{"learning_rate", 1000}, {"weight_decay", 1000}}},
                {"guard", {{"skip_non_finite", false}}}});
  succeed("train wild.json --data text.txt --out run");
  const auto list = answers("run");
  ASSERT_EQ(list.size(), 1u) << "validation losses that are no number have no answers, but the last step has";
  EXPECT_TRUE(list.back().at("answer").is_null());
  EXPECT_NE(list.back().at("problem").get<std::string>().find("not finite"), std::string::npos);
}

TEST_F(PromptSamples, PromptsThatCannotBeAnsweredAreRefusedBeforeTraining) {
  const auto refuse = [&](const json& samples, const std::vector<std::string>& words,
                          const json& more = json::object()) {
    write_config("bad.json", samples, more);
    refused("train bad.json --data text.txt --out run", words);
    EXPECT_FALSE(fs::exists(path("run")));
  };
  refuse({{{"text", "a"}}, {{"text", std::string(32, 'x')}}},
         {"/telemetry/samples/1", "32 tokens", "room for 32 with the answer", "/batch/sequence"});
  refuse({{{"text", ""}}}, {"/telemetry/samples/0", "empty prompt"});
  refuse({{{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}},
         {"/telemetry/samples/0", "chat template", "bytes or characters"});
  write_text(path("ids.bin"), std::string(4000, '\1'));
  write_config("ids.json", {{{"text", "a"}}},
               {{"data", {{"format", "tokens"}, {"token_type", "u16"}, {"vocabulary", nullptr}}},
                {"model", {{"vocab_size", 300}}}});
  refused("train ids.json --data ids.bin --out run", {"/telemetry/samples", "cannot read text"});
}

}  // namespace prompt_samples_test
}  // namespace hawser::cli_test
