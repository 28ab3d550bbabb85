// Tests that no command reports success if its output was not written.
#include <fcntl.h>

#include <filesystem>
#include <map>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace lost_output_test {

class LostOutput : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    succeed(
        "train config.json --data text.txt --out made --set /train/steps=2 --set /train/log_every=1 "
        "--set /adapter/rank=2");
    succeed("train config.json --data text.txt --out plain --set /train/steps=2 --set /checkpoint/every=1");
    std::filesystem::copy(path("made"), path("copied"), std::filesystem::copy_options::recursive);
  }

  /// Runs `hawser` with `file` as stdout, and closes `file` in this process.
  CommandResult run_into(int file, const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.string() +
        "' && exec env RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 " HAWSER_COMMAND " " +
        arguments + " 2>'" + path("stderr") + "' </dev/null";
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(file, STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(file);
    int status = 0;
    waitpid(pid, &status, 0);
    CommandResult result;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.err = read_text(path("stderr"));
    return result;
  }
  CommandResult run_on_full_disk(const std::string& arguments) const {
    return run_into(open("/dev/full", O_WRONLY | O_CLOEXEC), arguments);
  }
  CommandResult run_without_reader(const std::string& arguments) const {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    return run_into(ends[1], arguments);
  }
};

/// For each command, the arguments with which it prints; several rows if it prints in several ways. "%"
/// stands for a new path in each run.
const std::multimap<std::string, std::string>& printing() {
  static const std::multimap<std::string, std::string> commands = {
      {"average", "average plain averaged%"},
      {"chat", "chat --help"},
      {"compare", "compare made copied -o compared%.html"},
      {"completion", "completion bash"},
      {"convert", "convert made converted%"},
      {"device", "device --seconds 0.02"},
      {"device", "device --seconds 0.02 --json"},
      {"eval", "eval made --data text.txt --max-batches 1"},
      {"eval", "eval made --data text.txt --max-batches 1 --json"},
      {"explain", "explain /seed"},
      {"explain", "explain /seed --json"},
      {"explain", "explain --comm env"},
      {"flight", "flight flight-rank-0.json"},
      {"flight", "flight flight-rank-0.json --json"},
      {"generate", "generate made --tokens 1 --max-tokens 2"},
      {"generate", "generate made --prompt a --max-tokens 2"},
      {"init", "init quickstart"},
      {"init", "init quickstart -o config%.json"},
      {"inspect", "inspect made"},
      {"inspect", "inspect made --json"},
      {"launch", "launch -n 1 train config.json --data text.txt --set /train/steps=2"},
      {"merge", "merge made merged%"},
      {"plan", "plan config.json --set /model/vocab_size=256"},
      {"plan", "plan config.json --set /model/vocab_size=256 --json"},
      {"prepare", "prepare --help"},
      {"presets", "presets"},
      {"prove", "prove config.json --set /model/vocab_size=256 --set /mesh/dp_shard=2 --steps 1"},
      {"prove", "prove config.json --set /model/vocab_size=256 --set /mesh/dp_shard=2 --steps 1 --json"},
      {"schema", "schema"},
      {"tokenizer", HAWSER_HAS_TEXT ? "tokenizer encode " HAWSER_TOKENIZER " text.txt" : "tokenizer --help"},
      {"train", "train config.json --data text.txt --set /train/steps=2"},
      {"verify", "verify made"},
  };
  return commands;
}

std::string words_of(std::string words, int time) {
  if (const size_t at = words.find('%'); at != std::string::npos) words.replace(at, 1, std::to_string(time));
  return words;
}

constexpr const char* kRecord =
    R"({"ranks": [{"rank": 0, "time": 1.0, "groups": [{"name": "world", "members": [0, 1]}],
        "calls": [{"group": 0, "sequence": 3, "operation": "all_reduce", "state": "done",
                   "entered": 0.1, "ended": 0.2}]}]})";

TEST_F(LostOutput, FailsTheCommandOnAFullDisk) {
  write_text(path("flight-rank-0.json"), kRecord);
  int time = 0;
  for (const auto& [name, words] : printing()) {
    const std::string arguments = words_of(words, ++time);
    const CommandResult result = run_on_full_disk(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find("hawser: error: "), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find("stdout: No space left on device"), std::string::npos) << arguments << "\n"
                                                                                     << result.err;
  }
}

TEST_F(LostOutput, EndsQuietlyWhereThePipeWasClosed) {
  write_text(path("flight-rank-0.json"), kRecord);
  int time = 0;
  for (const auto& [name, words] : printing()) {
    const std::string arguments = words_of(words, ++time);
    const CommandResult result = run_without_reader(arguments);
    EXPECT_EQ(result.exit_code, 141) << arguments << "\n" << result.err;
    if (name != "train" && name != "launch") {
      EXPECT_EQ(result.err, "") << arguments;
    }
  }
}

/// Expects all commands in the table above, and tests that their help counts as output.
TEST_F(LostOutput, OfHelpAndVersionToo) {
  const std::string help = succeed("--help").out;
  std::istringstream lines(help.substr(help.find("Subcommands:") + 12));
  std::vector<std::string> asked = {"--help", "--version"};
  for (std::string line; std::getline(lines, line);) {
    std::string name;
    if (!line.starts_with("  ") || line.starts_with("   ") || !(std::istringstream(line) >> name)) continue;
    EXPECT_TRUE(printing().contains(name)) << "no row for " << name;
    asked.push_back(name + " --help");
  }
  EXPECT_GE(asked.size(), 15u) << help;
  asked.push_back("launch -n 1 train --help");
  for (const std::string& words : asked) {
    EXPECT_EQ(run_on_full_disk(words).exit_code, 1) << words;
    EXPECT_EQ(run_without_reader(words).exit_code, 141) << words;
  }
}

/// No file of the run gets a standard descriptor that was closed, because printed text would then end up in
/// that file.
TEST_F(LostOutput, ClosedDescriptorsAreNotTakenByFiles) {
  const std::string all = "train config.json --data text.txt --set /train/steps=3 --out ";
  for (const std::string closed : {"<&- >&- 2>&-", ">&-", "2>&-", "<&- 2>&-"}) {
    const std::string name = "run" + std::to_string(closed.size());
    const std::string command = "cd '" + folder_.string() + "' && " HAWSER_COMMAND " " + all + name + " " +
                                " >/dev/null 2>&1 " + closed;
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0) << closed;
    EXPECT_EQ(metric_rows(path(name)).size(), 3u) << closed;
    for (const char* file : {"config.json", "resolved.json", "overrides.json"})
      EXPECT_TRUE(nlohmann::json::accept(read_text(path(name) + "/" + file))) << closed << " " << file;
  }
  const std::string nowhere = std::string(HAWSER_COMMAND) + " schema >&- 2>'" + path("stderr") + "'";
  EXPECT_EQ(WEXITSTATUS(std::system(nowhere.c_str())), 1);
  EXPECT_NE(read_text(path("stderr")).find("stdout: Bad file descriptor"), std::string::npos);
}

}  // namespace lost_output_test
}  // namespace hawser::cli_test
