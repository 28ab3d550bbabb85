// Tests which files a run leaves however it ends, and that it resumes only with its own config and its own
// data.
#include <sys/resource.h>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace durable_test {

class Durable : public CommandTest {
 protected:
  /// Returns the arguments of a run of many steps that saves nothing before its end.
  static std::vector<std::string> long_run(const std::string& folder, const std::string& data = "text.txt") {
    return {"train",  "config.json",
            "--data", data,
            "--out",  folder,
            "--set",  "/train/steps=100000",
            "--set",  "/train/eval_every=0",
            "--set",  "/checkpoint/every=0",
            "--set",  "/train/log_every=1000",
            "--set",  "/checkpoint/every_seconds=0"};
  }

  /// Expects rows of steps 1 to N and the checkpoint of step N. Returns N.
  size_t expect_whole(const std::string& run) const {
    const std::vector<nlohmann::json> rows = metric_rows(folder_ / run);
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].at("step"), i + 1);
    EXPECT_TRUE(
        fs::exists(folder_ / run / "checkpoints" / ("step-" + std::to_string(rows.size())) / "manifest.json"))
        << rows.size();
    return rows.size();
  }

  /// Writes a text of 300 KB, and the same text with 40,000 bytes in the middle overwritten.
  void write_texts(const std::string& name, const std::string& changed) const {
    std::string text;
    while (text.size() < 300000) text += read_text(folder_ / "text.txt");
    write_text(path(name), text);
    std::fill_n(text.begin() + 130000, 40000, 'x');
    write_text(path(changed), text);
  }
};

TEST_F(Durable, AClosedTerminalEndsTheRunWithACheckpoint) {
  const pid_t child = start(long_run("run"));
  wait_for_rows("run", 5);
  kill(child, SIGHUP);  // sent by the kernel
  kill(child, SIGHUP);  // sent by the shell
  EXPECT_EQ(exit_code_of(child), 130);
  const size_t steps = expect_whole("run");
  succeed("train --resume run --set /train/steps=" + std::to_string(steps + 2));
}

TEST_F(Durable, NohupIsObeyed) {
  const auto before = signal(SIGHUP, SIG_IGN);
  const pid_t child = start(long_run("run"));
  signal(SIGHUP, before);
  wait_for_rows("run", 3);
  kill(child, SIGHUP);
  const size_t rows = metric_rows(folder_ / "run").size();
  wait_for_rows("run", rows + 5);
  EXPECT_EQ(kill(child, SIGINT), 0) << "it is still there";
  EXPECT_EQ(exit_code_of(child), 130);
  EXPECT_GE(expect_whole("run"), rows + 5);
}

TEST_F(Durable, AReaderThatGoesAwayEndsTheRunWithACheckpoint) {
  std::string words;
  for (const std::string& word : long_run("run")) words += " " + word;
  const std::string line = "cd '" + folder_.string() + "' && bash -c '" HAWSER_COMMAND + words +
                           " --set /train/log_every=1 2> err | head -1; exit ${PIPESTATUS[0]}' > /dev/null";
  const int status = std::system(line.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 141) << read_text(folder_ / "err");
  EXPECT_LT(expect_whole("run"), 100000u);
}

TEST_F(Durable, DataThatAreCutShortEndTheRunWithCode1AndACheckpoint) {
  write_texts("long.txt", "unused.txt");
  const std::string whole = read_text(folder_ / "long.txt");
  const pid_t child = start(long_run("run", "long.txt"));
  wait_for_rows("run", 5);
  fs::resize_file(path("long.txt"), 100);
  EXPECT_EQ(exit_code_of(child), 1) << "2 would say that nothing was written";
  const size_t steps = expect_whole("run");
  write_text(path("long.txt"), whole);
  succeed("train --resume run --set /train/steps=" + std::to_string(steps + 2));
  EXPECT_EQ(expect_whole("run"), steps + 2);
}

/// A limit on file sizes acts as a full disk for the run's files. The test sets and removes it while the run
/// continues.
TEST_F(Durable, RowsThatCannotBeWrittenComeLater) {
  const pid_t child = start(long_run("run"));
  wait_for_rows("run", 5);
  rlimit before{};
  ASSERT_EQ(prlimit(child, RLIMIT_FSIZE, nullptr, &before), 0);
  rlimit full = before;
  full.rlim_cur = fs::file_size(path("run/metrics.jsonl")) / 2;
  ASSERT_EQ(prlimit(child, RLIMIT_FSIZE, &full, nullptr), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto held = fs::file_size(path("run/metrics.jsonl"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(fs::file_size(path("run/metrics.jsonl")), held) << "the limit does not hold";
  ASSERT_EQ(prlimit(child, RLIMIT_FSIZE, &before, nullptr), 0);
  wait_for_rows("run", metric_rows(folder_ / "run").size() + 20);
  kill(child, SIGINT);
  EXPECT_EQ(exit_code_of(child), 130);
  expect_whole("run");
}

TEST_F(Durable, AConfigChangedByHandIsRefused) {
  succeed("train config.json --data text.txt --set /train/steps=4 --out run");
  const std::string config = read_text(folder_ / "run/config.json"),
                    rows = read_text(folder_ / "run/metrics.jsonl");
  const auto refuses = [&](const char* pointer, const nlohmann::json& value,
                           const std::vector<std::string>& words) {
    auto edited = nlohmann::json::parse(config);
    edited[nlohmann::json::json_pointer(pointer)] = value;
    write_text(path("run/config.json"), edited.dump());
    refused("train --resume run --set /train/steps=8", words);
    EXPECT_EQ(read_text(folder_ / "run/metrics.jsonl"), rows);
  };
  refuses("/optimizer/learning_rate", 0.5,
          {"config.json", "/optimizer/learning_rate: 0.5", "0.003", "step-4"});
  refuses("/optimizer/weight_decay", 0.2, {"/optimizer/weight_decay: 0.2", "not set in the checkpoint"});
  refuses("/batch/micro_batch", 8, {"/batch/global_batch: 8", "4 in the checkpoint"});
  refuses("/seed", 4, {"/seed: 4 there, 3 in the checkpoint"});
  auto edited = nlohmann::json::parse(config);
  edited["train"]["steps"] = 6;  // may change
  write_text(path("run/config.json"), edited.dump());
  succeed("train --resume run");
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 6u);
}

TEST_F(Durable, DataThatWereMovedAreTakenAndOthersOnlyWhenAsked) {
  write_texts("book.txt", "changed.txt");
  succeed("train config.json --data book.txt --out whole");
  succeed("train config.json --data book.txt --set /train/steps=10 --out run");
  fs::create_directory(path("elsewhere"));
  fs::rename(path("book.txt"), path("elsewhere/renamed.txt"));
  refused("train --resume run --set /train/steps=20", {"book.txt", "--data FILE"});
  const std::string rows = read_text(folder_ / "run/metrics.jsonl");
  refused("train --resume run --set /train/steps=20 --data changed.txt",
          {"other data", "/contents/files/0", "--other-data"});
  EXPECT_EQ(read_text(folder_ / "run/metrics.jsonl"), rows);
  fs::copy(path("run"), path("other"), fs::copy_options::recursive);
  succeed("train --resume run --set /train/steps=20 --data elsewhere/renamed.txt");
  EXPECT_EQ(metric_rows(folder_ / "run"), metric_rows(folder_ / "whole"));
  succeed("train --resume run");  // the run has stored the new path of its data
  succeed("train --resume other --set /train/steps=20 --data changed.txt --other-data");
  EXPECT_NE(metric_rows(folder_ / "other"), metric_rows(folder_ / "whole"));
  refused("train config.json --data changed.txt --other-data", {"--other-data", "--resume"});
}

}  // namespace durable_test
}  // namespace hawser::cli_test
