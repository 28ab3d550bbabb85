// Tests --resume and Ctrl-C: an interrupted and resumed run ends like one that was never interrupted.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace resume_test {

class Resume : public CommandTest {
 protected:
  void expect_same_run(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metric_rows(folder_ / a), metric_rows(folder_ / b));
    EXPECT_EQ(tensor_files(folder_ / a / "checkpoints/step-20"),
              tensor_files(folder_ / b / "checkpoints/step-20"));
    EXPECT_EQ(tensor_files(folder_ / a / "checkpoints/best"), tensor_files(folder_ / b / "checkpoints/best"));
  }

  static size_t checkpoints(const fs::path& run) {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
      count += entry.path().filename().string().starts_with("step-") ? 1 : 0;
    }
    return count;
  }
};

TEST_F(Resume, HalfAndHalfIsTheWholeBitForBit) {
  succeed("train config.json --data text.txt --out whole");
  succeed("train config.json --data text.txt --set /train/steps=10 --out halves");
  succeed("train --resume halves --set /train/steps=20");
  expect_same_run("whole", "halves");
  const auto config = nlohmann::json::parse(read_text(path("halves/config.json")));
  EXPECT_EQ(config.at("train").at("steps"), 20);
}

TEST_F(Resume, MoreStepsStretchTheScheduleAndSayHowNotTo) {
  auto config = nlohmann::json::parse(read_text(path("config.json")));
  config["schedule"].erase("decay_steps");
  config["train"]["steps"] = 10;
  write_text(path("config.json"), config.dump());
  for (const char* run : {"stretched", "kept"})
    succeed(std::string("train config.json --data text.txt --out ") + run);
  const std::string said = succeed("train --resume stretched --set /train/steps=20").err;
  EXPECT_NE(said.find("the cosine schedule now ends at step 20, not 10"), std::string::npos) << said;
  EXPECT_NE(said.find("--set /schedule/decay_steps=10"), std::string::npos) << said;
  const CommandResult kept =
      succeed("train --resume kept --set /train/steps=20 --set /schedule/decay_steps=10");
  EXPECT_EQ(kept.err.find("schedule"), std::string::npos) << kept.err;
  const auto rate = [&](const char* run) {
    return metric_rows(folder_ / run).back().at("learning_rate").get<double>();
  };
  EXPECT_EQ(rate("kept"), 0.0);
  EXPECT_EQ(metric_rows(folder_ / "stretched").at(14).at("step"), 15);
  EXPECT_GT(metric_rows(folder_ / "stretched").at(14).at("learning_rate").get<double>(), 0.0);
}

TEST_F(Resume, RowsAfterTheCheckpointAreNotRepeated) {
  succeed("train config.json --data text.txt --out whole");
  succeed("train config.json --data text.txt --out crashed");
  for (const char* name : {"step-20", "best"})  // as if the run had died between steps 10 and 20
    fs::remove_all(path("crashed/checkpoints/" + std::string(name)));
  const auto lines = lines_of(read_text(path("crashed/metrics.jsonl")));
  std::string torn;
  for (size_t i = 0; i < 14; ++i) torn += lines[i] + "\n";
  write_text(path("crashed/metrics.jsonl"), torn + lines[14].substr(0, 20));
  succeed("train --resume crashed");
  expect_same_run("whole", "crashed");
}

TEST_F(Resume, RowsThatARunTookTwiceAreReplaced) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += i / 60 == 20 ? "#$%@^{}~|&*" : "so it is. ";
  write_text(path("odd.txt"), text);
  const std::string guarded =
      " --set /train/eval_every=0 --set /guard/outlier=rewind --set /guard/outlier_z=1 --set "
      "/guard/max_rewinds=20 --set "
      "/checkpoint/every=10 --set /checkpoint/keep_last=20";
  const CommandResult whole = succeed(
      "train config.json --data odd.txt --out whole --set /train/steps=100 --set "
      "/schedule/decay_steps=100" +
      guarded);
  EXPECT_NE(whole.out.find("the run goes on from its newest checkpoint"), std::string::npos) << whole.out;
  const auto last_rows = [&] {  // of each step
    std::vector<nlohmann::json> last;
    for (const nlohmann::json& row : metric_rows(folder_ / "whole")) {
      while (!last.empty() && last.back().at("step") >= row.at("step")) last.pop_back();
      last.push_back(row);
    }
    return last;
  };
  const std::vector<nlohmann::json> before = last_rows();
  EXPECT_EQ(before.size(), 100u);
  EXPECT_LT(before.size(), metric_rows(folder_ / "whole").size());
  for (const auto& entry : fs::directory_iterator(path("whole/checkpoints")))
    if (entry.path().filename() != "step-80") fs::remove_all(entry);
  succeed("train --resume whole");
  EXPECT_EQ(last_rows(), before);
  EXPECT_EQ(metric_rows(folder_ / "whole").at(79).at("step"), 80)
      << "rows up to the checkpoint are there once";
}

TEST_F(Resume, ADamagedCheckpointIsPassedOver) {
  succeed("train config.json --data text.txt --out whole");
  succeed("train config.json --data text.txt --out damaged");
  fs::remove_all(path("damaged/checkpoints/best"));  // `best` has step 20 too
  for (const auto& entry : fs::directory_iterator(path("damaged/checkpoints/step-20"))) {
    if (entry.path().extension() == ".safetensors")
      fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
  }
  const CommandResult result = succeed("train --resume damaged");
  EXPECT_NE(result.out.find("step-10"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("damaged-step-20"), std::string::npos) << result.err;
  EXPECT_EQ(metric_rows(folder_ / "whole"), metric_rows(folder_ / "damaged"));
}

TEST_F(Resume, GoesOnFromTheBestWhereThatIsTheNewest) {
  succeed("train config.json --data text.txt --out whole");
  succeed("train config.json --data text.txt --out best");
  fs::remove_all(path("best/checkpoints/step-20"));
  const CommandResult result = succeed("train --resume best");
  EXPECT_NE(result.out.find("best/checkpoints/best"), std::string::npos) << result.out;
  EXPECT_EQ(metric_rows(folder_ / "whole"), metric_rows(folder_ / "best"));
}

TEST_F(Resume, CtrlCEndsWithACheckpointAndGoesOnBitForBit) {
  const int code =
      run_and_signal({"train", "config.json", "--data", "text.txt", "--out", "stopped", "--set",
                      "/train/steps=3000", "--set", "/train/eval_every=0", "--set", "/checkpoint/every=0"},
                     "stopped", 5, SIGINT);
  EXPECT_EQ(code, 130);
  const size_t steps = metric_rows(folder_ / "stopped").size();
  ASSERT_GE(steps, 5u);
  ASSERT_LT(steps, 3000u);
  EXPECT_TRUE(fs::exists(path("stopped/checkpoints/step-" + std::to_string(steps) + "/manifest.json")));
  EXPECT_NE(read_text(path("stopped/report.html")).find("interrupted"), std::string::npos);
  const std::string end = std::to_string(steps + 4);
  succeed("train --resume stopped --set /train/steps=" + end);
  succeed(
      "train config.json --data text.txt --set /train/eval_every=0 --set /checkpoint/every=0 --set "
      "/train/steps=" +
      end + " --out whole");
  EXPECT_EQ(metric_rows(folder_ / "stopped"), metric_rows(folder_ / "whole"));
  EXPECT_EQ(tensor_files(folder_ / "stopped/checkpoints" / ("step-" + end)),
            tensor_files(folder_ / "whole/checkpoints" / ("step-" + end)));
}

TEST_F(Resume, AKilledRunGoesOnFromItsLastCheckpoint) {
  const int code = run_and_signal({"train", "config.json", "--data", "text.txt", "--out", "killed", "--set",
                                   "/train/steps=3000", "--set", "/train/eval_every=0"},
                                  "killed", 25, SIGKILL);
  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_GE(checkpoints(folder_ / "killed"), 1u);
  const size_t rows = lines_of(read_text(path("killed/metrics.jsonl"))).size();
  const std::string end = std::to_string(rows + 20);
  succeed("train --resume killed --set /train/steps=" + end);
  succeed("train config.json --data text.txt --set /train/eval_every=0 --out whole --set /train/steps=" +
          end);
  EXPECT_EQ(metric_rows(folder_ / "killed"), metric_rows(folder_ / "whole"));
}

TEST_F(Resume, RefusesWhatWouldMakeItAnotherRun) {
  succeed("train config.json --data text.txt --set /train/steps=10 --set /seed=9 --out run");
  const std::string before = read_text(path("run/metrics.jsonl"));
  refused("train --resume run --set /optimizer/learning_rate=1 --set /seed=4 --set /train/steps=20",
          {"/optimizer/learning_rate", "/seed", "/train/patience, /train/log_every"});
  auto other = config();
  other["model"]["width"] = 64;
  write_text(path("other.json"), other.dump());
  refused("train other.json --resume run", {"/model/width", "64", "32"});
  refused("train --resume nothing", {"nothing"});
  fs::create_directory(path("stranger"));
  refused("train --resume stranger", {"stranger", "--out"});
  EXPECT_EQ(read_text(path("run/metrics.jsonl")), before);
}

TEST_F(Resume, TakesTheRunsOwnConfigBesideIt) {
  succeed("train config.json --data text.txt --set /train/steps=10 --set /seed=9 --out run");
  succeed("train config.json --data text.txt --resume run --set /train/steps=12");
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 12u);
  const CommandResult done = succeed("train --resume run");
  EXPECT_NE(done.out.find("already"), std::string::npos) << done.out;
  const std::string before = read_text(path("run/config.json"));
  EXPECT_NE(succeed("train --resume run --set /train/steps=5").out.find("already"), std::string::npos);
  EXPECT_EQ(read_text(path("run/config.json")), before);  // nothing ran, so nothing changes
}

}  // namespace resume_test
}  // namespace hawser::cli_test
