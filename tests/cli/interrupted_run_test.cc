// Tests of runs that were killed early or could not write their rows. They start again, and lost rows are
// reported.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace interrupted_run_test {

class InterruptedRun : public CommandTest {
 protected:
  /// Removes the rows of these steps, as if the disk had been full when they were due.
  void lose_rows(const std::string& run, const std::vector<int64_t>& steps) const {
    std::string kept;
    for (const std::string& line : lines_of(read_text(path(run + "/metrics.jsonl")))) {
      const auto step = nlohmann::json::parse(line).at("step").get<int64_t>();
      if (std::find(steps.begin(), steps.end(), step) == steps.end()) kept += line + "\n";
    }
    write_text(path(run + "/metrics.jsonl"), kept);
  }
};

TEST_F(InterruptedRun, BeforeItsFirstCheckpointStartsAgain) {
  // Disables evaluation, because on a fast machine it would save the best weights before the kill.
  const std::string seldom = " --set /checkpoint/every=90000 --set /train/eval_every=0 ";
  succeed("train config.json --data text.txt --out whole" + seldom);
  const int code = run_and_signal(
      {"train", "config.json", "--data", "text.txt", "--out", "run", "--set", "/checkpoint/every=90000",
       "--set", "/train/eval_every=0", "--set", "/train/steps=1000000"},
      "run", 5, SIGKILL);
  EXPECT_EQ(code, 128 + SIGKILL);
  ASSERT_FALSE(fs::exists(path("run/checkpoints/step-20")));
  EXPECT_NE(run("train config.json --data text.txt --out run").err.find("--resume run"), std::string::npos);
  const CommandResult resumed = succeed("train --resume run --set /train/steps=20");
  EXPECT_NE(resumed.out.find("from its beginning"), std::string::npos) << resumed.out;
  EXPECT_EQ(metric_rows(folder_ / "run"), metric_rows(folder_ / "whole"));
  EXPECT_EQ(tensor_files(folder_ / "run/checkpoints/step-20"),
            tensor_files(folder_ / "whole/checkpoints/step-20"));
}

/// A run that never saves would lose its rows, and no file shows that it was killed.
TEST_F(InterruptedRun, ThatNeverSavesIsNotStartedAgain) {
  const std::string never = " --set /checkpoint/every=0 --set /checkpoint/every_seconds=0 ";
  succeed("train config.json --data text.txt --out run" + never);
  fs::remove_all(path("run/checkpoints"));
  const std::string rows = read_text(path("run/metrics.jsonl"));
  refused("train --resume run --set /train/steps=30", {"no checkpoint"});
  EXPECT_EQ(read_text(path("run/metrics.jsonl")), rows);
}

TEST_F(InterruptedRun, WhileItsFolderWasMadeStartsAgain) {
  const std::vector<std::vector<std::string>> remains = {{"resolved.json.tmp-77"},
                                                         {"resolved.json"},
                                                         {"resolved.json", "config.json.tmp-77"},
                                                         {"resolved.json", "config.json"},
                                                         {"resolved.json", "config.json", "overrides.json"}};
  for (const auto& files : remains) {
    fs::remove_all(path("run"));
    fs::create_directory(path("run"));
    for (const std::string& file : files) write_text(path("run/" + file), "{}");
    succeed("train config.json --data text.txt --set /train/steps=2 --out run");
    EXPECT_EQ(metric_rows(folder_ / "run").size(), 2u);
    EXPECT_FALSE(fs::exists(path("run/resolved.json.tmp-77")));
  }
}

TEST_F(InterruptedRun, FilesOfTheUserStay) {
  const std::vector<std::vector<std::string>> others = {
      {"config.json"}, {"overrides.json"}, {"resolved.json", "notes.txt"}, {"config.json", "metrics.jsonl"}};
  for (const auto& files : others) {
    for (const char* command : {"train config.json --data text.txt --out own",
                                "train config.json --data text.txt --elastic --out own"}) {
      fs::remove_all(path("own"));
      fs::create_directory(path("own"));
      for (const std::string& file : files) write_text(path("own/" + file), "mine");
      EXPECT_NE(run(command).exit_code, 0);
      for (const std::string& file : files) EXPECT_EQ(read_text(path("own/" + file)), "mine") << command;
    }
  }
}

TEST_F(InterruptedRun, RowsThatAreLostAreNamed) {
  succeed("train config.json --data text.txt --out run");
  const CommandResult whole = succeed("train --resume run --set /train/steps=21");
  EXPECT_EQ(whole.err.find("no rows"), std::string::npos) << whole.err;
  lose_rows("run", {3, 4, 5, 9, 20, 21});
  for (const char* steps : {"23", "24"}) {  // every resumed run reports them, because the rows stay lost
    const CommandResult result = succeed(std::string("train --resume run --set /train/steps=") + steps);
    EXPECT_NE(result.err.find("metrics.jsonl has no rows of steps 3 to 5, 9, 20 to 21"), std::string::npos)
        << result.err;
    EXPECT_NE(read_text(path("run/report.html")).find("steps 3 to 5, 9, 20 to 21"), std::string::npos);
  }
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 18u);
}

}  // namespace interrupted_run_test
}  // namespace hawser::cli_test
