// Tests moving a run's folder while it trains: all files of the run move with it, and nothing is created at
// the old path.
#include <csignal>
#include <sstream>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace moved_run_test {

constexpr int kSteps = 240;

class MovedRun : public CommandTest, public ::testing::WithParamInterface<std::string> {
 protected:
  /// Starts `hawser` in the background, with its stdout in a file.
  pid_t start(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() + "' && exec " HAWSER_COMMAND " " + arguments +
                                " >'" + path("stdout") + "' 2>'" + path("stderr") + "' </dev/null";
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    return pid;
  }
  /// Waits until metrics.jsonl of `run` has `rows` rows, a minute at most.
  void wait_for_rows(const std::string& run, size_t rows) const {
    for (int i = 0; i < 6000 && lines_of(read_text(path(run + "/metrics.jsonl"))).size() < rows; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_GE(lines_of(read_text(path(run + "/metrics.jsonl"))).size(), rows) << read_text(path("stderr"));
  }
  std::string train(const std::string& words) const {
    return GetParam() + " train config.json --data text.txt --set /train/steps=" + std::to_string(kSteps) +
           " --set /checkpoint/every=80 --set /checkpoint/keep_last=100 --set /train/eval_every=90 " +
           (GetParam().empty() ? "" : "--set /mesh/dp_shard=2 ") + words;
  }
};

TEST_P(MovedRun, IsOneRunAndGoesOnFromItsNewPlace) {
  const pid_t pid = start(train("--out run"));
  wait_for_rows("run", 3);
  fs::create_directory(path("archive"));
  fs::rename(path("run"), path("archive/moved"));
  wait_for_rows("archive/moved", 92);  // far from the next validation, which an interrupt would cut short
  EXPECT_EQ(kill(pid, SIGINT), 0);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 130) << read_text(path("stderr"));
  EXPECT_FALSE(fs::exists(path("run")));
  EXPECT_NE(read_text(path("stdout")).find("--resume " + path("archive/moved")), std::string::npos)
      << read_text(path("stdout"));
  for (const char* name : {"config.json", "report.html", "checkpoints/step-80", "checkpoints/best"})
    EXPECT_TRUE(fs::exists(path("archive/moved/") + name)) << name;

  const std::string words = GetParam().empty() ? "" : GetParam() + " ";
  succeed(words + "train --resume archive/moved");
  const CommandResult undisturbed = succeed(train("--out undisturbed"));
  const std::string last = "/checkpoints/step-" + std::to_string(kSteps);
  EXPECT_EQ(tensor_files(path("archive/moved") + last), tensor_files(path("undisturbed") + last));
  EXPECT_EQ(metric_rows(path("archive/moved")), metric_rows(path("undisturbed")));
  EXPECT_FALSE(fs::exists(path("run")));
}

INSTANTIATE_TEST_SUITE_P(All, MovedRun, ::testing::Values("", "launch -n 2"));

/// After a rank is lost, all ranks and the replacement form a new meeting, and find the folder at its new
/// path.
TEST_F(CommandTest, AnElasticRunGoesOnInTheNewPlaceOfItsFolder) {
  const std::string words =
      " train config.json --data text.txt --set /mesh/dp_shard=2 --set /train/steps=200 "
      "--set /checkpoint/every=20 --set /checkpoint/keep_last=100 --out ";
  const std::string command = "cd '" + folder_.string() +
                              "' && exec " HAWSER_COMMAND " launch -n 2 --elastic" + words +
                              "run >stdout 2>stderr </dev/null";
  const pid_t launcher = fork();
  if (launcher == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  const auto rows = [&](const std::string& run) {
    return lines_of(read_text(path(run + "/metrics.jsonl"))).size();
  };
  for (int i = 0; i < 3000 && rows("run") < 25; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  fs::rename(path("run"), path("moved"));
  std::istringstream children(
      read_text("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children"));
  pid_t first = 0, second = 0;
  children >> first >> second;
  ASSERT_GT(second, 0) << read_text(path("stderr"));
  kill(second, SIGKILL);
  int status = 0;
  waitpid(launcher, &status, 0);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << read_text(path("stderr"));
  EXPECT_NE(read_text(path("stderr")).find("continuing with 2 ranks"), std::string::npos)
      << read_text(path("stderr"));
  EXPECT_FALSE(fs::exists(path("run")));
  EXPECT_EQ(rows("moved"), 200u);
  succeed("launch -n 2" + words + "undisturbed");
  EXPECT_EQ(metric_rows(path("moved")), metric_rows(path("undisturbed")));
}

}  // namespace moved_run_test
}  // namespace hawser::cli_test
