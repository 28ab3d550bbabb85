// Tests runs with several ranks, as threads of one process and as processes of `launch`, which are resumed,
// evaluated and sampled on other numbers of ranks.
#include <fcntl.h>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace ranks_test {

using nlohmann::json;

class Ranks : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    auto c = config();
    c["batch"] = {{"micro_batch", 1}, {"global_batch", 4}};
    c["train"] = {{"steps", 6}, {"eval_every", 3}, {"eval_batches", 1}, {"log_every", 2}};
    c["data"]["path"] = path("text.txt");
    write_text(path("config.json"), c.dump());
  }

  /// Returns the options for `ranks` ranks that shard all state.
  static std::string mesh(int ranks) {
    return " --set /mesh/dp_shard=" + std::to_string(ranks) +
           " --set /zero/stage=" + (ranks > 1 ? "3 " : "0 ");
  }

  void expect_same_run(const std::string& a, const std::string& b) const {
    EXPECT_EQ(metric_rows(folder_ / a), metric_rows(folder_ / b));
    for (const char* checkpoint : {"checkpoints/step-6", "checkpoints/best"}) {
      const auto files = tensor_files(folder_ / a / checkpoint);
      EXPECT_FALSE(files.empty());
      EXPECT_EQ(files, tensor_files(folder_ / b / checkpoint)) << checkpoint;
    }
  }
};

TEST_F(Ranks, AMeshOfFourTrainsAsOneRank) {
  const CommandResult result = succeed("train config.json --out four" + mesh(4));
  for (const char* words :
       {"ranks: 4 (dp_replicate 1 x dp_shard 4), ZeRO stage 3", "| 4 ranks |", "for each rank"}) {
    EXPECT_NE(result.out.find(words), std::string::npos) << words << " in\n" << result.out;
  }
  EXPECT_NE(read_text(path("four/report.html")).find("4 (dp_replicate 1 x dp_shard 4)"), std::string::npos);
  const CommandResult one = succeed("train config.json --out one");
  EXPECT_EQ(one.out.find("ranks"), std::string::npos);
  const auto many_rows = metric_rows(folder_ / "four"), one_rows = metric_rows(folder_ / "one");
  ASSERT_EQ(many_rows.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(many_rows[i].at("loss").get<double>(), one_rows[i].at("loss").get<double>(), 1e-5) << i;
    EXPECT_EQ(many_rows[i].at("tokens"), one_rows[i].at("tokens")) << i;
  }
}

TEST_F(Ranks, RanksThatDivideExpertsAreThoseOfOtherAxes) {
  const std::string experts =
      " --set /model/bias/up=false --set /model/bias/down=false --set /model/moe/experts=4 --set "
      "/model/moe/width=8 --set /batch/global_batch=2" +
      mesh(2);
  const CommandResult two = succeed("train config.json --out two --set /mesh/ep=2" + experts);
  EXPECT_NE(two.out.find("ranks: 2 (dp_replicate 1 x dp_shard 2, ep 2), ZeRO stage 3"), std::string::npos)
      << two.out;
  succeed("train config.json --out whole" + experts);
  const auto rows = metric_rows(folder_ / "two"), whole = metric_rows(folder_ / "whole");
  ASSERT_EQ(rows.size(), whole.size());
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].at("loss"), whole[i].at("loss")) << i;
}

TEST_F(Ranks, ThePlanIsPerRank) {
  const CommandResult text = succeed("plan config.json" + mesh(4));
  EXPECT_EQ(text.out.find("4 ranks (dp_replicate 1 x dp_shard 4), ZeRO-3"), 0u) << text.out;
  const auto plan = json::parse(succeed("plan config.json --json" + mesh(4)).out);
  EXPECT_EQ(plan.at("ranks"), 4);
  const auto one = json::parse(succeed("plan config.json --json").out);
  EXPECT_LT(plan.at("memory").at("optimizer"), one.at("memory").at("optimizer"));
}

TEST_F(Ranks, ResumesOnFewerRanks) {
  succeed("train config.json --out run" + mesh(4));
  const CommandResult result = succeed("train --resume run --set /train/steps=9" + mesh(2));
  EXPECT_NE(result.out.find("ranks: 2"), std::string::npos) << result.out;
  succeed("train --resume run --set /train/steps=10 " + mesh(1));
  const auto rows = metric_rows(folder_ / "run");
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows.back().at("samples"), 40);
  EXPECT_LT(rows.back().at("loss").get<double>(), rows.front().at("loss").get<double>());
}

TEST_F(Ranks, AResumedRunKeepsItsGlobalBatch) {
  auto c = json::parse(read_text(path("config.json")));
  c["batch"] = {{"micro_batch", 1}};
  write_text(path("free.json"), c.dump());
  succeed("train free.json --out run" + mesh(4));
  const std::string before = read_text(path("run/metrics.jsonl"));
  refused("train --resume run --set /train/steps=8 --set /mesh/dp_shard=2",
          {"2 rows per step", "4", "--set /batch/grad_accum_steps=2"});
  refused("train --resume run --set /train/steps=8 --set /mesh/dp_shard=3",
          {"3 rows per step", "product is 4"});
  refused("train --resume run --set /batch/global_batch=8", {"/batch/global_batch", "/mesh, /zero, /comm"});
  EXPECT_EQ(read_text(path("run/metrics.jsonl")), before);
  succeed("train --resume run --set /train/steps=8 --set /mesh/dp_shard=2 --set /batch/grad_accum_steps=2");
  EXPECT_EQ(metric_rows(folder_ / "run").back().at("samples"), 32);
}

TEST_F(Ranks, EvaluatesAndGeneratesAsOneRank) {
  succeed("train config.json --out run" + mesh(2));
  const auto one = json::parse(succeed("eval run --data text.txt --json").out);
  const auto many = json::parse(succeed("eval run --data text.txt --json" + mesh(4)).out);
  EXPECT_EQ(one.at("loss"), many.at("loss"));
  EXPECT_EQ(one.at("tokens"), many.at("tokens"));
  const std::string words = "generate run --prompt the --max-tokens 20";
  EXPECT_EQ(succeed(words).out, succeed(words + mesh(2)).out);
}

TEST_F(Ranks, RefusesRanksThatDoNotFit) {
  const std::string two = " --comm 127.0.0.1:1 --world 2 ";
  refused("train config.json --out run --rank 0" + two,
          {"mesh has 1 ranks", "2 processes", "/mesh/dp_shard=2"});
  refused("train config.json --out run --rank 2" + two + mesh(2), {"--rank 2", "from 0 to 1"});
  refused("train config.json --out run" + two + mesh(2), {"--rank"});
  refused("train config.json --out run --rank 0", {"--comm"});
  refused("launch -n 4 train config.json --out run" + mesh(2), {"mesh has 2 ranks", "4 processes"});
  refused("launch -n 2 train config.json --out run --rank 1" + mesh(2), {"--rank"});
  refused("launch -n 2 train config.json --outt run" + mesh(2), {"--outt"});
  refused("launch -n 2 plan config.json" + mesh(2), {"launch", "train"});
  refused("launch -n 0 train config.json" + mesh(2), {"--processes", "1 to 4096"});
  refused("launch -n 2 train config.json --data nothing.txt --out run" + mesh(2), {"nothing.txt"});
  EXPECT_FALSE(fs::exists(path("run")));
}

/// Tests ranks as processes.
class Launch : public Ranks {
 protected:
  /// Starts 30,000 steps on two ranks in the background. A process counts as lost after two seconds.
  pid_t start(const std::string& run, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {"hawser", "launch", "-n", "2"};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& word :
         {std::string("train"), std::string("config.json"), std::string("--out"), run,
          std::string("--dead-after"), std::string("2"), std::string("--set"),
          std::string("/mesh/dp_shard=2"), std::string("--set"), std::string("/train/steps=30000"),
          std::string("--set"), std::string("/train/eval_every=0"), std::string("--set"),
          std::string("/checkpoint/every=0")}) {
      words.push_back(word);
    }
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      if (chdir(folder_.c_str()) != 0) _exit(99);
      for (const auto& [name, fd] : {std::pair{"stdout", 1}, std::pair{"stderr", 2}}) {
        dup2(::open(name, O_CREAT | O_WRONLY | O_TRUNC, 0666), fd);
      }
      execv(HAWSER_COMMAND, arguments.data());
      _exit(99);
    }
    return pid;
  }
  /// Like start, but waits until the run trains.
  pid_t begin(const std::string& run, const std::vector<std::string>& options = {}) const {
    const pid_t pid = start(run, options);
    for (int i = 0; i < 3000 && lines_of(read_text(folder_ / run / "metrics.jsonl")).size() < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return pid;
  }

  static std::vector<pid_t> ranks_of(pid_t launcher) {
    const std::string process = "/proc/" + std::to_string(launcher);
    std::istringstream words(read_text(process + "/task/" + std::to_string(launcher) + "/children"));
    std::vector<pid_t> pids;
    for (pid_t pid; words >> pid;) pids.push_back(pid);
    return pids;
  }

  static int end_of(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  static void expect_gone(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) {
      bool gone = false;
      for (int i = 0; i < 2000 && !gone; ++i) {
        const std::string status = read_text("/proc/" + std::to_string(pid) + "/status");
        gone = status.empty() || status.find("State:\tZ") != std::string::npos;
        if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_TRUE(gone) << pid;
    }
  }
};

TEST_F(Launch, ComputesWhatLocalRanksCompute) {
  succeed("train config.json --out local" + mesh(2));
  const CommandResult result = succeed("launch -n 2 train config.json --out launched" + mesh(2));
  expect_same_run("local", "launched");
  EXPECT_EQ(result.err, "");
  size_t headings = 0;  // only rank 0 prints
  for (const std::string& line : lines_of(result.out)) headings += line.starts_with("ranks: 2") ? 1 : 0;
  EXPECT_EQ(headings, 1u) << result.out;
  EXPECT_EQ(json::parse(read_text(path("local/config.json"))),
            json::parse(read_text(path("launched/config.json"))));
  succeed("launch -n 2 train --resume launched --set /train/steps=8");
  succeed("train --resume local --set /train/steps=8");
  EXPECT_EQ(metric_rows(folder_ / "local"), metric_rows(folder_ / "launched"));
}

TEST_F(Launch, CtrlCEndsAllWithACheckpoint) {
  const pid_t launcher = begin("run");
  const std::vector<pid_t> ranks = ranks_of(launcher);
  EXPECT_EQ(ranks.size(), 2u);
  kill(launcher, SIGINT);
  EXPECT_EQ(end_of(launcher), 130);
  expect_gone(ranks);
  const size_t steps = metric_rows(folder_ / "run").size();
  EXPECT_LT(steps, 30000u);
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-" + std::to_string(steps) + "/manifest.json")));
  EXPECT_EQ(read_text(path("stderr")), "");
}

TEST_F(Launch, OneRankThatIsKilledEndsAll) {
  const pid_t launcher = begin("run");
  const std::vector<pid_t> ranks = ranks_of(launcher);
  ASSERT_EQ(ranks.size(), 2u);
  kill(ranks[1], SIGKILL);
  EXPECT_EQ(end_of(launcher), 128 + SIGKILL);
  expect_gone(ranks);
  const std::string err = read_text(path("stderr"));
  EXPECT_NE(err.find("rank 1 was killed by signal 9"), std::string::npos) << err;
  EXPECT_NE(err.find("rank 1 of 2 is gone"), std::string::npos) << err;
  EXPECT_NE(err.find("rank 0 of 2: its last"), std::string::npos) << err;
  const CommandResult flight = succeed("flight run");
  for (const char* words :
       {"flight-rank-0.json: rank 1 of 2 is gone", "group dp", "rank 1     left no record"}) {
    EXPECT_NE(flight.out.find(words), std::string::npos) << words << " in\n" << flight.out;
  }
  const auto record = json::parse(succeed("flight run --json").out);
  EXPECT_EQ(record.at("ranks").size(), 1u);
  EXPECT_EQ(record.at("ranks").at(0).at("world_size"), 2);
}

/// The records are like those of two ranks after the third was killed.
TEST_F(Ranks, AFlightRecordSaysWhoNeverCame) {
  const auto record = [](int rank, int sequence, const char* state) {
    const json group = {{"name", "dp"}, {"members", {0, 1, 2}}};
    const json call = {{"ticket", 9},    {"sequence", sequence}, {"operation", "all_reduce"},
                       {"group", 0},     {"bytes", 64},          {"state", state},
                       {"issued", 99.0}, {"entered", 99.5},      {"ended", nullptr}};
    const json entry = {{"rank", rank},
                        {"world_size", 3},
                        {"time", 100.0},
                        {"groups", {group}},
                        {"calls", json::array({call})}};
    return json{{"ranks", {entry}}}.dump();
  };
  fs::create_directory(path("records"));
  write_text(path("records/flight-rank-0.json"), record(0, 812, "running"));
  write_text(path("records/flight-rank-1.json"), record(1, 811, "finished"));
  const std::string out = succeed("flight records").out;
  for (const char* words :
       {"rank 0     all_reduce 812 running, 0.500 s before the end", "rank 1     all_reduce 811 finished",
        "rank 2     left no record", "rank 1 never entered all_reduce 812 of group dp"}) {
    EXPECT_NE(out.find(words), std::string::npos) << words << " in\n" << out;
  }
  refused("flight .", {"no flight-rank-N.json"});
  write_text(path("records/flight-rank-1.json"), "[]");
  refused("flight records", {"flight-rank-1.json is not a flight record"});
}

/// One rank is stopped, so it handles no signal except SIGKILL.
TEST_F(Launch, LeavesNoRankBehind) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--elastic"}}) {
    const pid_t launcher = begin("run" + std::to_string(options.size()), options);
    const std::vector<pid_t> ranks = ranks_of(launcher);
    ASSERT_EQ(ranks.size(), 2u);
    kill(ranks[1], SIGSTOP);
    kill(launcher, SIGKILL);
    EXPECT_EQ(end_of(launcher), 128 + SIGKILL);
    expect_gone(ranks);
  }
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The other ranks detect the loss after 2 s. The launcher then kills the stopped rank at once.
TEST_F(Launch, OneRankThatStandsStillEndsAllWhenItIsMissed) {
  for (const size_t still : {0, 1}) {
    SCOPED_TRACE(still);
    const pid_t launcher = begin("run" + std::to_string(still));
    const std::vector<pid_t> ranks = ranks_of(launcher);
    ASSERT_EQ(ranks.size(), 2u);
    const auto begun = std::chrono::steady_clock::now();
    kill(ranks[still], SIGSTOP);
    EXPECT_NE(end_of(launcher), 0);
    EXPECT_LT(seconds_since(begun), 8) << "it took dead-after + 20 s";
    expect_gone(ranks);
    const std::string err = read_text(path("stderr")), rank = "rank " + std::to_string(still);
    EXPECT_NE(err.find(rank + " of 2 sent no heartbeat for 2 s"), std::string::npos) << err;
  }
}

/// Ranks that are not connected cannot detect a loss. The launcher detects the stopped process and ends the
/// others.
TEST_F(Launch, OneRankThatStandsStillBeforeTheyMeetEndsAll) {
  const pid_t launcher = start("run");
  std::vector<pid_t> ranks;
  while (ranks.size() < 2) ranks = ranks_of(launcher);
  const auto begun = std::chrono::steady_clock::now();
  kill(ranks[0], SIGSTOP);
  EXPECT_EQ(end_of(launcher), 128 + SIGKILL);
  EXPECT_LT(seconds_since(begun), 10) << "it took 80 s";
  expect_gone(ranks);
  const std::string err = read_text(path("stderr"));
  EXPECT_NE(err.find("rank 0 hung and was killed"), std::string::npos) << err;
}

/// Each rank reads the secret once, from a pipe that is then closed.
TEST_F(Launch, TheSecretOfAJobIsInNoArgumentAndNoVariable) {
  if (!fs::exists(fs::path(HAWSER_COMMAND).parent_path() / "hawser-0/libhawser_identity.so"))
    GTEST_SKIP() << "libhawser_identity.so is not built (Debian: libsodium-dev)";
  const pid_t launcher = begin("run");
  const std::vector<pid_t> ranks = ranks_of(launcher);
  ASSERT_EQ(ranks.size(), 2u);
  for (const pid_t rank : ranks) {
    const fs::path process = "/proc/" + std::to_string(rank);
    std::string words = read_text(process / "cmdline");
    const std::string name("--secret-fd\0", 12);
    const size_t at = words.find(name);
    ASSERT_NE(at, std::string::npos) << words;
    const std::string descriptor = words.c_str() + at + name.size();
    std::error_code none;
    EXPECT_NE(fs::read_symlink(process / "fd" / descriptor, none).string().substr(0, 4), "pipe")
        << "descriptor " << descriptor << " is still open";
    EXPECT_EQ(read_text(process / "environ"), read_text("/proc/self/environ"));
  }
  kill(launcher, SIGKILL);
  end_of(launcher);
}

/// The installation cannot prove secrets: it has the command and the library, but not the module.
TEST_F(Launch, WithoutProofsTheNetworkMustBeTrusted) {
  const fs::path build = fs::path(HAWSER_COMMAND).parent_path();
  fs::create_directory(folder_ / "bare");
  fs::copy(HAWSER_COMMAND, folder_ / "bare/hawser");
  for (const auto& entry : fs::directory_iterator(build)) {
    if (entry.path().filename().string().starts_with("libhawser.so"))
      fs::copy(entry.path(), folder_ / "bare" / entry.path().filename());
  }
  const auto bare = [&](const std::string& options) {
    return std::system(("cd '" + folder_.string() + "' && bare/hawser launch -n 2 " + options +
                        " train config.json" + mesh(2) + " >/dev/null 2>err")
                           .c_str());
  };
  EXPECT_NE(bare(""), 0);
  const std::string err = read_text(path("err"));
  for (const char* words : {"libhawser_identity.so", "--trust-network"})
    EXPECT_NE(err.find(words), std::string::npos) << err;
  EXPECT_EQ(bare("--trust-network"), 0) << read_text(path("err"));
  EXPECT_EQ(read_text(path("err")).find("hawser: note: the ranks meet without a secret: "), 0u)
      << read_text(path("err"));
}

/// The command raises its soft limit of descriptors up to the hard limit.
TEST_F(Launch, DescriptorsAreTakenAsFarAsTheHardLimitGoes) {
  const std::string words =
      " launch -n 2 train config.json" + mesh(2) + " >/dev/null 2>'" + path("err") + "'";
  const std::string there = "cd '" + folder_.string() + "' && ";
  EXPECT_EQ(std::system((there + "ulimit -Sn 30 && " HAWSER_COMMAND + words).c_str()), 0)
      << read_text(path("err"));
  EXPECT_NE(std::system((there + "ulimit -n 30 && " HAWSER_COMMAND + words).c_str()), 0);
  const std::string err = read_text(path("err"));
  EXPECT_NE(err.find("of 2 needs "), std::string::npos) << err;
  EXPECT_NE(err.find("may have 30"), std::string::npos) << err;
}

/// The rank is stopped for less than --dead-after.
TEST_F(Launch, ARankThatGoesOnInTimeIsNotEnded) {
  const pid_t launcher = begin("run");
  const std::vector<pid_t> ranks = ranks_of(launcher);
  ASSERT_EQ(ranks.size(), 2u);
  for (int i = 0; i < 3; ++i) {
    kill(ranks[1], SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    kill(ranks[1], SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(ranks_of(launcher).size(), 2u) << read_text(path("stderr"));
  kill(launcher, SIGINT);
  EXPECT_EQ(end_of(launcher), 130);
}

}  // namespace ranks_test
}  // namespace hawser::cli_test
