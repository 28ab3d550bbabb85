// Tests `hawser train`: the files that a run leaves, its output, and the inputs that it refuses.
#include <pty.h>

#include <regex>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace train_command_test {

using TrainCommand = CommandTest;

TEST_F(TrainCommand, LeavesConfigMetricsReportAndCheckpoints) {
  const CommandResult result = succeed("train config.json --data text.txt --out run");
  const fs::path run = folder_ / "run";
  const auto rows = metric_rows(run);
  ASSERT_EQ(rows.size(), 20u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("step"), i + 1);
    EXPECT_EQ(rows[i].contains("validation_loss"), (i + 1) % 5 == 0) << i;
    EXPECT_EQ(rows[i].at("outcome"), "accepted");
  }
  EXPECT_LT(rows.back().at("loss").get<double>(), rows.front().at("loss").get<double>());
  for (const char* name :
       {"config.json", "resolved.json", "starts.jsonl", "report.html", "checkpoints/step-10/manifest.json",
        "checkpoints/step-20/manifest.json", "checkpoints/best/manifest.json"}) {
    EXPECT_TRUE(fs::exists(run / name)) << name;
  }
  EXPECT_NE(result.out.find("order-1"), std::string::npos) << result.out;
  const std::string report = read_text(run / "report.html");
  EXPECT_EQ(report.find("://"), std::string::npos) << "the report must need nothing else";
}

/// Returns the value of a row of the report's table.
std::string report_row(const std::string& report, const std::string& label) {
  const std::string begin = "<tr><td>" + label + "</td><td>";
  const size_t at = report.find(begin);
  if (at == std::string::npos) return "no such row";
  return report.substr(at + begin.size(), report.find("</td>", at + begin.size()) - at - begin.size());
}

TEST_F(TrainCommand, TheReportSaysWhenOnWhichFilesAndHowToRepeatTheRun) {
  fs::create_directory(folder_ / "it's & more");
  succeed("train config.json --data text.txt --out \"it's & more/run\"");
  const std::string report = read_text(folder_ / "it's & more/run/report.html");
  EXPECT_TRUE(std::regex_match(report_row(report, "started"), std::regex("20[0-9-]{8} [0-9:]{5} UTC")))
      << report_row(report, "started");
  EXPECT_EQ(report_row(report, "resumed"), "no such row");
  EXPECT_EQ(report_row(report, "data files"), fs::canonical(folder_ / "text.txt").string());
  std::string command = report_row(report, "to repeat it");
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(command.find(from), std::string::npos) << command;
    command.replace(command.find(from), from.size(), to);
  };
  replace("&amp;", "&"), replace("NEW_FOLDER", path("again")), replace("hawser ", "");
  succeed(command);
  EXPECT_EQ(metric_rows(folder_ / "it's & more/run"), metric_rows(folder_ / "again"));
}

TEST_F(TrainCommand, TheReportOfAResumedRunSaysSince) {
  succeed("train config.json --data text.txt --set /train/steps=10 --out run");
  succeed("train --resume run --set /train/steps=20");
  const std::string report = read_text(path("run/report.html"));
  EXPECT_TRUE(report_row(report, "started").starts_with("20"));
  EXPECT_TRUE(report_row(report, "resumed").ends_with(" UTC after step 10")) << report_row(report, "resumed");
  succeed("train --resume run");  // nothing is left to train
  EXPECT_EQ(lines_of(read_text(path("run/starts.jsonl"))).size(), 2u);
}

TEST_F(TrainCommand, TheConfigOfARunDoesTheSameRunAgainFromAnywhere) {
  succeed("train config.json --data text.txt --set /seed=7 --out run");
  const CommandResult again = succeed("train run/config.json --out again");
  EXPECT_EQ(metric_rows(folder_ / "run"), metric_rows(folder_ / "again"));
  EXPECT_EQ(tensor_files(folder_ / "run/checkpoints/step-20"),
            tensor_files(folder_ / "again/checkpoints/step-20"));
  const std::string elsewhere = "cd / && " HAWSER_COMMAND " train '" + path("run/config.json") + "' --out '" +
                                path("third") + "' >/dev/null";
  EXPECT_EQ(std::system(elsewhere.c_str()), 0);
  EXPECT_EQ(metric_rows(folder_ / "run"), metric_rows(folder_ / "third"));
}

TEST_F(TrainCommand, EndsEarlyAndTellsTheLossOfEachValidationSet) {
  fs::create_directory(folder_ / "other");
  write_text(path("other/text.txt"), read_text(path("text.txt")).substr(0, 2000));
  const std::string sets = R"([{"path": ")" + path("other/text.txt") + R"("}, {"path": ")" +
                           path("text.txt") + R"(", "name": "all"}])";
  const std::string command = "train config.json --data text.txt --set '/data/validation_sources=" + sets +
                              "' --set /optimizer/learning_rate=0 --set /train/epochs=2 "
                              "--set /train/eval_every=3 --set /train/eval_batches=20 "
                              "--set /train/patience=2 --out run";
  const CommandResult result = succeed(command);
  EXPECT_NE(result.out.find("ended early at step 9: the validation loss has not fallen since step 3"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("| text.txt "), std::string::npos) << result.out;
  const auto rows = metric_rows(folder_ / "run");
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_FALSE(rows[1].contains("validation_losses"));
  EXPECT_EQ(rows[2].at("validation_losses").size(), 2u);
  EXPECT_GT(rows[2].at("validation_losses").at("all").get<double>(), 0);
  EXPECT_FALSE(rows[5].contains("ended_early"));
  EXPECT_EQ(rows[8].at("ended_early"), true);
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/step-9/manifest.json"));
  EXPECT_NE(read_text(folder_ / "run/report.html").find("ended early"), std::string::npos);
  // Resumed unchanged, the run has ended already. With more patience it continues, for at most two passes
  // over the data.
  EXPECT_NE(succeed("train --resume run").out.find("ended early at step 9"), std::string::npos);
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 9u);
  succeed("train --resume run --set /train/patience=3");
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 12u);
  succeed("train --resume run --set /train/patience=1000");
  const auto resolved = nlohmann::json::parse(read_text(folder_ / "run/resolved.json"));
  const size_t samples = (read_text(path("text.txt")).size() - 1) / 32;
  EXPECT_EQ(resolved.at("train").at("steps"), (2 * samples + 3) / 4);
  EXPECT_EQ(metric_rows(folder_ / "run").size(), resolved.at("train").at("steps").get<size_t>());
}

TEST_F(TrainCommand, PipedOutputIsPlainLines) {
  const CommandResult result =
      succeed("train config.json --data text.txt --set /train/eval_every=0 --out run");
  EXPECT_EQ(result.out.find('\r'), std::string::npos);
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  for (const char* step : {"step 1/20 ", "step 5/20 ", "step 10/20 ", "step 20/20 "}) {
    EXPECT_NE(result.out.find(step), std::string::npos) << step << " in\n" << result.out;
  }
  EXPECT_EQ(result.out.find("step 6/20 "), std::string::npos);
  for (const char* word : {"loss", "lr", "norm", "tok/s", "ETA", "iB"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word;
  }
  // A line reports a checkpoint only once it exists.
  const auto line = [&](const char* step) {
    const size_t begin = result.out.find(step);
    return result.out.substr(begin, result.out.find('\n', begin) - begin);
  };
  EXPECT_TRUE(line("step 10/20 ").ends_with("| saving")) << result.out;
  EXPECT_TRUE(line("step 15/20 ").ends_with("| saved step-10")) << result.out;
  EXPECT_TRUE(line("step 20/20 ").ends_with("| saving")) << result.out;
  const size_t first = result.out.find("step 1/20"), mfu = result.out.find("MFU");
  ASSERT_NE(mfu, std::string::npos);
  EXPECT_GT(mfu, result.out.find('\n', first)) << "the peak is measured after the first report";
}

/// Expects every kernel of the step in the table, and in the trace inside an instruction.
TEST_F(TrainCommand, ProfileShowsWhereTheTimeWent) {
  const CommandResult result =
      succeed("train config.json --data text.txt --set /train/eval_every=5 --profile --out run");
  for (const char* name : {"of limit", "matmul 128 x 96 x 32 NT fp32", "attention_forward 32 x 16 fp32",
                           "adamw fp32", "cross_entropy fp32", "between kernels", "limits measured now"}) {
    EXPECT_NE(result.out.find(name), std::string::npos) << name << " in\n" << result.out;
  }
  const auto trace = nlohmann::json::parse(read_text(folder_ / "run/trace.json"));
  int kernels = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("cat", "") != "kernel") continue;
    ++kernels;
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    bool inside = false;
    for (const auto& other : trace.at("traceEvents"))
      inside =
          inside || (other.value("cat", "") == "compute" && other.at("ts").get<double>() <= begin + 1e-3 &&
                     end <= other.at("ts").get<double>() + other.at("dur").get<double>() + 1e-3);
    EXPECT_TRUE(inside) << event;
  }
  EXPECT_GT(kernels, 20);
}

/// The report is written after the first step and at each validation, so it exists however the run ends.
TEST_F(TrainCommand, AKilledRunLeavesItsReport) {
  const pid_t child = start({"train", "config.json", "--data", "text.txt", "--out", "run", "--set",
                             "/train/steps=100000", "--set", "/train/eval_every=40"});
  wait_for_rows("run", 42);
  kill(child, SIGKILL);
  EXPECT_EQ(exit_code_of(child), 128 + SIGKILL);
  const std::string report = read_text(path("run/report.html"));
  EXPECT_NE(report.find("running &middot; step"), std::string::npos);
  EXPECT_NE(report.find("http-equiv=\"refresh\""), std::string::npos);
  EXPECT_NE(report.find("best validation loss"), std::string::npos);
}

TEST_F(TrainCommand, ATerminalKeepsTheHistoryOfValidations) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (chdir(folder_.c_str()) != 0) _exit(99);
    execl(HAWSER_COMMAND, "hawser", "train", "config.json", "--data", "text.txt", nullptr);
    _exit(99);
  }
  std::string shown;
  char block[4096];
  for (ssize_t n; (n = read(terminal, block, sizeof block)) > 0;) shown.append(block, static_cast<size_t>(n));
  close(terminal);
  EXPECT_EQ(exit_code_of(child), 0) << shown;
  for (const char* part : {"step 5: validation loss ", "step 10: validation loss ",
                           "step 20: validation loss ", ", epoch 0.24, after ", "(best)\r\n", "elapsed "})
    EXPECT_NE(shown.find(part), std::string::npos) << part << " in\n" << shown;
}

TEST_F(TrainCommand, SaysWhatIsHeldOutOfAText) {
  EXPECT_NE(succeed("train config.json --data text.txt").out.find("validation: the last 10% of each file"),
            std::string::npos);
  const std::string own = succeed(
                              "train config.json --data text.txt --set "
                              "'/data/validation_sources=[{\"path\": \"text.txt\"}]'")
                              .out;
  EXPECT_EQ(own.find("validation: the last"), std::string::npos) << own;
}

TEST_F(TrainCommand, ShowsSamples) {
  const CommandResult result =
      succeed("train config.json --data text.txt --set /train/sample_every=10 --out run");
  EXPECT_NE(result.out.find("sample after step 10"), std::string::npos);
  EXPECT_NE(read_text(path("run/report.html")).find("Sample after step 20"), std::string::npos);
  succeed("train config.json --data text.txt --out other");
  EXPECT_EQ(metric_rows(folder_ / "run"), metric_rows(folder_ / "other")) << "samples change nothing";
}

TEST_F(TrainCommand, AUsedFolderIsRefused) {
  fs::create_directory(path("used"));
  write_text(path("used/notes"), "mine");
  refused("train config.json --data text.txt --out used", {"used", "--resume"});
  EXPECT_EQ(read_text(path("used/notes")), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(path("used")), {}), 1);
  refused("train config.json --data text.txt --out text.txt", {"text.txt"});
  fs::create_directory(path("empty"));
  succeed("train config.json --data text.txt --set /train/steps=1 --out empty");
}

TEST_F(TrainCommand, WrongInputWritesNothing) {
  refused("train config.json --data missing.txt --out run", {"missing.txt"});
  refused("train config.json --out run", {"--data FILE"});
  refused("train config.json --data text.txt --set /model/heads=5 --out run", {"/model/heads"});
  refused("train config.json --data text.txt --set /model/width=nan --out run", {"/model/width"});
  write_text(path("empty.txt"), "");
  refused("train config.json --data empty.txt --out run", {"empty.txt"});
  refused("train --data text.txt --out run", {"CONFIG"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(TrainCommand, AModelThatDoesNotFitSaysWhatItNeeds) {
  write_text(path("tokens.u16"), std::string(4000, '\0'));
  refused("train llama-3.1-405b --set /batch/sequence=64 --data tokens.u16 --out run", {"available"});
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(TrainCommand, ATokenFileTakesThePlaceOfAPresetsText) {
  write_text(path("tokens.u16"), std::string(4000, '\0'));
  succeed(
      "train quickstart --data tokens.u16 --set /model/vocab_size=7 --set /model/context=16 --set "
      "/model/layers=1 "
      "--set /model/width=12 --set /schedule/warmup_steps=0 --set /train/steps=1");
}

TEST_F(TrainCommand, GoesOnWithoutACheckpointAndFailsWithoutTheLast) {
  const std::string train =
      "train config.json --data text.txt --set /checkpoint/path=text.txt/no-folder --set /checkpoint/every=5";
  for (const char* async : {"false", "true"}) {
    const CommandResult result = run(train + " --set /checkpoint/async=" + async);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.out.find("a checkpoint could not be written: "), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("| NOT SAVED "), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("step 20/20"), std::string::npos) << result.out;
    EXPECT_NE(result.err.find("text.txt is not a folder"), std::string::npos) << result.err;
  }
  const CommandResult stopped = run(train + " --set /checkpoint/on_error=stop");
  EXPECT_NE(stopped.exit_code, 0);
  EXPECT_EQ(stopped.out.find("step 10/20"), std::string::npos) << stopped.out;
}

TEST_F(TrainCommand, WithoutOutNothingIsKept) {
  const auto before = std::distance(fs::directory_iterator(folder_), {});
  const CommandResult result = succeed("train config.json --data text.txt");
  EXPECT_NE(result.out.find("without --out"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), before + 2);  // stdout and stderr of the test
}

TEST_F(TrainCommand, ThreadsDoNotChangeTheRun) {
  succeed("train config.json --data text.txt --threads 1 --out one");
  succeed("train config.json --data text.txt --threads 2 --out two");
  EXPECT_EQ(metric_rows(folder_ / "one"), metric_rows(folder_ / "two"));
}

TEST_F(TrainCommand, EditedPresetTrains) {
  succeed("init quickstart -o mine.json");
  auto mine = nlohmann::json::parse(read_text(path("mine.json")));
  mine["model"].update({{"layers", 1}, {"width", 32}, {"heads", 2}, {"context", 16}});
  mine["train"]["steps"] = 3;
  mine["schedule"]["warmup_steps"] = 1;
  write_text(path("mine.json"), mine.dump());
  succeed("train mine.json --data text.txt --out run");
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 3u);
}

}  // namespace train_command_test
}  // namespace hawser::cli_test
