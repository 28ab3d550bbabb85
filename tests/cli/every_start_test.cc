// Runs every command after every way to start a run: a table of starts, each followed by a table of commands.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace every_start_test {

/// Reduces a preset to a model that takes milliseconds per step.
constexpr const char* kSmall =
    " --set /model/layers=1 --set /model/width=32 --set /model/heads=2 --set /model/context=32"
    " --set /batch/micro_batch=4 --set /train/steps=4 --set /train/eval_every=2 --set "
    "/schedule/warmup_steps=1"
    " --set /train/sample_every=2 --set /checkpoint/every=2";

struct Start {
  const char* name;
  std::vector<std::string> commands;  ///< run in this order; the last one creates the folder "run"
  const char* adapter = nullptr;      ///< set if the run trains an adapter
};

class EveryStart : public CommandTest, public ::testing::WithParamInterface<Start> {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    const nlohmann::json model = {{"layers", 1}, {"width", 32}, {"heads", 2}, {"context", 32}};
    nlohmann::json preset = {{"preset", "quickstart"},
                             {"data", {{"path", "text.txt"}}},
                             {"model", model},
                             {"schedule", {{"warmup_steps", 1}}},
                             {"train", {{"steps", 4}, {"eval_every", 2}, {"sample_every", 2}}},
                             {"checkpoint", {{"every", 2}}}};
    write_text(path("preset.json"), preset.dump());
    preset["mesh"]["dp_shard"] = 2;
    write_text(path("two_ranks.json"), preset.dump());
    preset.erase("mesh");
    preset.erase("model");
    preset["init"]["from"] = "base/checkpoints/step-4";
    write_text(path("from_base.json"), preset.dump());
  }
};

std::vector<Start> starts() {
  const std::string of_preset = "train preset.json --out ";
  return {
      {"AConfigFile", {"train config.json --data text.txt --set /train/steps=4 --out run"}},
      {"AConfigFileThatNamesAPreset", {of_preset + "run"}},
      {"APresetByItsName", {std::string("train quickstart --data text.txt --out run") + kSmall}},
      {"APresetThatWasWrittenToEdit",
       {"init quickstart -o own.json", std::string("train own.json --data text.txt --out run") + kSmall}},
      {"ARunOfAPreset",
       {of_preset + "base", "train base/checkpoints/step-4 --data text.txt --set /train/steps=4 --out run"}},
      {"AHuggingFaceFolder",
       {of_preset + "base", "convert base model",
        "train model --data text.txt --set /train/steps=4 --out run"}},
      {"AConfigWithAPresetAndAModelToStartFrom", {of_preset + "base", "train from_base.json --out run"}},
      {"AnAdapter",
       {of_preset + "base",
        "train base/checkpoints/step-4 --lora --data text.txt --set /train/epochs=1 --out run"},
       "adapter"},
      {"TwoProcessesOfAPreset", {"launch -n 2 train two_ranks.json --out run"}},
      {"TwoProcessesThatMayBeLost", {"launch -n 2 --elastic train two_ranks.json --out run"}},
      {"ARunThatWasContinued", {of_preset + "run", "train --resume run --set /train/steps=6"}},
      {"ARunThatWasMoved", {of_preset + "elsewhere", "train --resume elsewhere --set /train/steps=6"}},
  };
}

TEST_P(EveryStart, EveryCommandTakesItsRun) {
  for (const std::string& command : GetParam().commands) succeed(command);
  if (!fs::exists(path("run"))) fs::rename(path("elsewhere"), path("run"));
  const bool adapter = GetParam().adapter != nullptr;
  const int64_t done = nlohmann::json::parse(succeed("inspect run --json").out).at("step").get<int64_t>();
  const std::string model = "run/checkpoints/step-" + std::to_string(done);
  const std::string few = " --data text.txt --set /train/steps=2 --out ";
  const std::vector<std::string> commands = {"inspect run",
                                             "verify run",
                                             "generate run --prompt 'the rope' --max-tokens 4",
                                             "generate " + model + " --prompt 'the rope' --max-tokens 4",
                                             "eval run --data text.txt",
                                             "convert run exported",
                                             "plan run/config.json",
                                             "plan " + model,
                                             "explain run/config.json /batch",
                                             "train run/config.json --set /train/steps=2 --out again",
                                             "train " + model + few + "tuned"};
  for (const std::string& command : commands) succeed(command);
  if (adapter) {
    succeed("merge run merged");
    succeed("generate merged --prompt 'the rope' --max-tokens 4");
  } else {
    succeed("train " + model + " --lora" + few + "lora");
    succeed("generate lora --prompt 'the rope' --max-tokens 4");
    succeed("generate exported --prompt 'the rope' --max-tokens 4");
  }
  succeed("train --resume run --set /train/steps=" + std::to_string(done + 2));
  succeed("generate run --prompt 'the rope' --max-tokens 4");
}

INSTANTIATE_TEST_SUITE_P(All, EveryStart, ::testing::ValuesIn(starts()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace every_start_test
}  // namespace hawser::cli_test
