// Tests the commands init, presets, schema, plan and explain.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace config_commands_test {

using ConfigCommands = CommandTest;

TEST_F(ConfigCommands, PresetsAreListedAndInitWritesOneToEdit) {
  const auto names = lines_of(succeed("presets").out);
  EXPECT_NE(std::find(names.begin(), names.end(), "gpt2-124m"), names.end());
  EXPECT_NE(std::find(names.begin(), names.end(), "quickstart"), names.end());
  const auto printed = nlohmann::json::parse(succeed("init gpt2-124m").out);
  EXPECT_EQ(printed.at("model").at("layers"), 12);
  succeed("init gpt2-124m -o mine.json");
  EXPECT_EQ(nlohmann::json::parse(read_text(path("mine.json"))), printed);
  refused("init gpt2-124m -o mine.json", {"mine.json", "exists"});
  refused("init gpt2-124n", {"gpt2-124m"});
}

TEST_F(ConfigCommands, SchemaIsJson) {
  const auto schema = nlohmann::json::parse(succeed("schema").out);
  EXPECT_TRUE(schema.contains("$schema"));
  EXPECT_TRUE(schema.at("properties").contains("model"));
}

TEST_F(ConfigCommands, PlanShowsInstructionsAndMemoryOfModelsThatFitNowhere) {
  const CommandResult text = succeed("plan llama-3.1-405b --set /precision=bf16");
  EXPECT_NE(text.out.find("FORWARD"), std::string::npos);
  const auto plan = nlohmann::json::parse(succeed("plan llama-3.1-405b --json").out);
  EXPECT_GT(plan.at("parameters").get<double>(), 400e9);
  EXPECT_FALSE(plan.at("instructions").empty());
}

TEST_F(ConfigCommands, ExplainTakesAConfigAPointerBothOrNeither) {
  EXPECT_NE(succeed("explain /optimizer/beta2").out.find("default"), std::string::npos);
  EXPECT_NE(succeed("explain").out.find("/train/steps"), std::string::npos);
  const std::string both = succeed("explain config.json /model/layers").out;
  EXPECT_NE(both.find("/model/layers = 1"), std::string::npos) << both;
  EXPECT_NE(both.find("file"), std::string::npos) << both;
  EXPECT_NE(succeed("explain '" + path("config.json") + "'").out.find("/model/width = 32"),
            std::string::npos);
  const auto json =
      nlohmann::json::parse(succeed("explain config.json /model/layers --set /model/layers=2 --json").out);
  EXPECT_EQ(json.at("value"), 2);
  EXPECT_EQ(json.at("origin"), "set");
  refused("explain /model/layerz", {"layers"});
  const std::string usage = succeed("explain --help").out;
  EXPECT_NE(usage.find("[config] [pointer]"), std::string::npos) << usage;
}

TEST_F(ConfigCommands, AllProblemsOfAConfigAreReportedAtOnce) {
  write_text(path("bad.json"), R"({"model": {"layrs": 2, "width": "wide"}, "trian": {}})");
  refused("train bad.json", {"bad.json", "layrs", "layers", "/model/width", "trian"});
  write_text(path("broken.json"), "{\"model\": ");
  refused("plan broken.json", {"broken.json"});
  refused("plan no-such.json", {"no-such.json"});
  refused("plan no-such-preset", {"no-such-preset"});
}

TEST_F(ConfigCommands, AllProblemsOfSetsAreReportedAtOnce) {
  refused("plan config.json --set steps=3 --set /train/stepz=3 --set /train/steps=many",
          {"steps=3", "/json/pointer=value", "/train/stepz", "/train/steps"});
}

}  // namespace config_commands_test
}  // namespace hawser::cli_test
