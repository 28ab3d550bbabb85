// Elastic test: a run survives the loss of ranks. Processes of `hawser launch --elastic` are killed at random
// moments, the others continue, fewer or replaced, and the result has every bit of an undisturbed run that
// changed its number of ranks at the same steps. HAWSER_KILLS sets the number of kills (default 4),
// HAWSER_STEPS the length of the run (default 40), HAWSER_SEED the seed, which is printed.
#include <fcntl.h>
#include <sys/prctl.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace elastic_test {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

int64_t number_from(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : otherwise;
}

constexpr int64_t kRows = 12;  // rows of a step: two, three and four ranks can divide them

class Elastic : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_config(number_from("HAWSER_STEPS", 40), 600);
  }
  ~Elastic() override {
    if (launcher_ > 0) kill(launcher_, SIGTERM), waitpid(launcher_, nullptr, 0);
  }

  void write_config(int64_t steps, double timeout) const {
    auto c = config();
    c["model"] = {{"context", 64}, {"layers", 2}, {"width", 64}, {"heads", 2}};
    c["data"]["path"] = path("text.txt");
    c["batch"] = {{"micro_batch", 2}, {"global_batch", kRows}};
    c["mesh"] = {{"dp_shard", 2}};
    c["zero"] = {{"stage", 2}};
    c["cpu"] = {{"threads", 1}};
    c["comm"] = {{"timeout_seconds", timeout}};
    c["schedule"] = {{"decay_steps", steps}};
    c["train"] = {{"steps", steps}, {"eval_every", 0}, {"log_every", 10}};
    c["checkpoint"] = {{"every", 4}, {"keep_last", 2}};
    write_text(path("config.json"), c.dump());
  }

  /// Runs `hawser WORDS` in the background.
  void launch(const std::string& words) {
    launcher_ = fork();
    if (launcher_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (chdir(folder_.c_str()) != 0) _exit(99);
    for (const auto& [name, fd] : {std::pair{"stdout", 1}, std::pair{"stderr", 2}})
      dup2(::open(name, O_CREAT | O_WRONLY | O_TRUNC, 0666), fd);
    execl("/bin/sh", "sh", "-c", ("exec " HAWSER_COMMAND " " + words).c_str(), static_cast<char*>(nullptr));
    _exit(99);
  }
  int end_of_launcher() {
    int status = 0;
    waitpid(std::exchange(launcher_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::vector<pid_t> processes() const {
    const std::string pid = std::to_string(launcher_);
    std::istringstream words(read_text("/proc/" + pid + "/task/" + pid + "/children"));
    std::vector<pid_t> pids;
    for (pid_t child; words >> child;) pids.push_back(child);
    return pids;
  }
  size_t steps_done() const { return lines_of(read_text(path("run/metrics.jsonl"))).size(); }
  /// Waits until the condition holds; returns false if it does not hold within 60 seconds.
  bool wait_for(const std::function<bool()>& that) const {
    const auto until = Clock::now() + std::chrono::seconds(60);
    while (!that() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return that();
  }

  /// Repeats the same steps on the same numbers of ranks without disturbance, with threads of one process for
  /// each part. `copy`: the number of ranks that compute a block together, which stays constant.
  void expect_the_bits_of_an_undisturbed_run(int64_t copy = 1) const {
    std::map<int64_t, int64_t> ranks_from;  // only the last generation of each step trained
    for (const std::string& line : lines_of(read_text(path("run/ranks.jsonl")))) {
      const auto meeting = json::parse(line);
      // Steps after the beginning of a later generation were repeated by it.
      ranks_from.erase(ranks_from.lower_bound(meeting.at("step").get<int64_t>()), ranks_from.end());
      ranks_from[meeting.at("step").get<int64_t>()] = meeting.at("ranks").get<int64_t>();
    }
    for (auto from = ranks_from.begin(); from != ranks_from.end(); ++from) {
      const auto next = std::next(from);
      const int64_t dp = from->second / copy, share = kRows / dp, micro_batch = share % 2 == 0 ? 2 : 1;
      std::string words =
          from == ranks_from.begin() ? "train config.json --out undisturbed" : "train --resume undisturbed";
      for (const auto& [field, value] :
           std::map<std::string, int64_t>{{"/mesh/dp_shard", dp},
                                          {"/batch/micro_batch", micro_batch},
                                          {"/batch/grad_accum_steps", share / micro_batch}})
        words += " --set " + field + "=" + std::to_string(value);
      if (next != ranks_from.end())
        words += " --set /train/steps=" + std::to_string(next->first);
      else if (from != ranks_from.begin())
        words += " --set /train/steps=" + std::to_string(total_steps());
      succeed(words);
    }
    EXPECT_EQ(metric_rows(folder_ / "run"), metric_rows(folder_ / "undisturbed"));
    const std::string last = "checkpoints/step-" + std::to_string(total_steps());
    EXPECT_FALSE(tensor_files(folder_ / "run" / last).empty());
    EXPECT_EQ(tensor_files(folder_ / "run" / last), tensor_files(folder_ / "undisturbed" / last));
  }
  int64_t total_steps() const {
    return json::parse(read_text(path("config.json"))).at("train").at("steps").get<int64_t>();
  }

  pid_t launcher_ = -1;
};

TEST_F(Elastic, KillsAtRandomMomentsChangeNoBit) {
  const auto seed =
      static_cast<uint64_t>(number_from("HAWSER_SEED", static_cast<int64_t>(std::random_device{}())));
  const int64_t kills = number_from("HAWSER_KILLS", 4);
  std::printf("seed %llu (HAWSER_SEED), %lld kills (HAWSER_KILLS), %lld steps (HAWSER_STEPS)\n",
              static_cast<unsigned long long>(seed), static_cast<long long>(kills),
              static_cast<long long>(total_steps()));
  std::mt19937_64 random(seed);
  std::vector<size_t> at_steps;  // rows of the metrics; no kill in the last tenth, so that the run can end
  for (int64_t k = 0; k < kills; ++k)
    at_steps.push_back(random() % static_cast<uint64_t>(std::max<int64_t>(1, total_steps() * 9 / 10)));
  std::sort(at_steps.begin(), at_steps.end());
  launch("launch -n 4 --elastic --at-least 2 train config.json --out run");
  for (const size_t step : at_steps) {
    ASSERT_TRUE(wait_for([&] { return steps_done() >= step && !processes().empty(); }))
        << read_text(path("stderr"));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    const std::vector<pid_t> pids = processes();
    ASSERT_FALSE(pids.empty()) << "the run was over too soon: " << read_text(path("stderr"));
    ASSERT_EQ(kill(pids[random() % pids.size()], SIGKILL), 0);
  }
  EXPECT_EQ(end_of_launcher(), 0) << read_text(path("stderr"));
  const std::string err = read_text(path("stderr"));
  int64_t told = 0;
  for (const std::string& line : lines_of(err))
    told += line.find("was killed by signal 9") != std::string::npos;
  // A rank may have ended just before it was killed.
  EXPECT_GE(told, kills - 1) << err;
  EXPECT_NE(err.find("continuing with"), std::string::npos) << err;
  expect_the_bits_of_an_undisturbed_run();
}

/// The number of ranks that divide blocks, columns or layers stays two; the number of their replicas changes
/// from two to one and back.
TEST_F(Elastic, ModelParallelRanksChangeNoBitEither) {
  for (const char* axis : {"tp", "cp", "pp"}) {
    write_config(40, 600);
    auto c = json::parse(read_text(path("config.json")));
    c["mesh"] = {{"dp_shard", 2}, {axis, 2}};
    c["zero"] = json::object();
    write_text(path("config.json"), c.dump());
    launch("launch -n 4 --elastic --at-least 2 train config.json --out run");
    for (const size_t step : {6, 22}) {
      ASSERT_TRUE(wait_for([&] { return steps_done() >= step && processes().size() >= 2; }))
          << axis << read_text(path("stderr"));
      kill(processes()[1], SIGKILL);
    }
    EXPECT_EQ(end_of_launcher(), 0) << axis << read_text(path("stderr"));
    EXPECT_GE(lines_of(read_text(path("run/ranks.jsonl"))).size(), 3u) << axis << ": it has met again";
    expect_the_bits_of_an_undisturbed_run(2);
    for (const char* folder : {"run", "undisturbed"}) std::filesystem::remove_all(folder_ / folder);
  }
}

TEST_F(Elastic, AStoppedProcessIsReplaced) {
  write_config(40, 20);
  launch("launch -n 2 --elastic train config.json --out run --dead-after 1");
  ASSERT_TRUE(wait_for([&] { return steps_done() >= 6 && processes().size() == 2; }));
  kill(processes()[0], SIGSTOP);  // the rank that prints
  EXPECT_EQ(end_of_launcher(), 0) << read_text(path("stderr"));
  const std::string err = read_text(path("stderr"));
  EXPECT_NE(err.find("rank 0 hung and was killed"), std::string::npos) << err;
  EXPECT_NE(err.find("continuing with 2 ranks"), std::string::npos) << err;
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(Elastic, RowsThatWerePreparedGoOnAfterAKill) {
  if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "the text module is not built";
  std::string chats;
  for (int i = 0; i < 200; ++i)
    chats += R"({"messages": [{"role": "user", "content": "Say )" + std::to_string(i) +
             R"("}, {"role": "assistant", "content": "Well, )" + std::to_string(i) + "\"}]}\n";
  write_text(path("chat.jsonl"), chats);
  succeed("prepare " HAWSER_TOKENIZER " --data chat.jsonl -o rows --sequence 32 --template plain");
  auto c = json::parse(read_text(path("config.json")));
  c["data"] = {{"path", path("rows")}, {"format", "prepared"}};
  c["model"]["vocab_size"] = 704, c["batch"]["sequence"] = 32;
  write_text(path("config.json"), c.dump());
  launch("launch -n 2 --elastic train config.json --out run");
  ASSERT_TRUE(wait_for([&] { return steps_done() >= 6 && processes().size() == 2; }))
      << read_text(path("stderr"));
  kill(processes()[1], SIGKILL);
  EXPECT_EQ(end_of_launcher(), 0) << read_text(path("stderr"));
  EXPECT_EQ(lines_of(read_text(path("run/ranks.jsonl"))).size(), 2u) << "it has met again";
  expect_the_bits_of_an_undisturbed_run();
}

/// Uses launchers that restart a job, perhaps with another size, as torchrun does.
TEST_F(Elastic, OneCommandBeginsAndGoesOnWithAnyNumberOfRanks) {
  write_config(12, 600);
  const auto job = [&](int ranks, const std::string& more) {
    const std::string port = free_port();
    std::string command = "cd '" + folder_.string() + "'; fail=0";
    for (int r = 0; r < ranks; ++r)
      command += "; RANK=" + std::to_string(r) + " WORLD_SIZE=" + std::to_string(ranks) +
                 " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
                 " " HAWSER_COMMAND " train config.json --elastic --comm env --out run --set /seed=5" + more +
                 " >>out 2>>err & p" + std::to_string(r) + "=$!";
    for (int r = 0; r < ranks; ++r) command += "; wait $p" + std::to_string(r) + " || fail=1";
    return std::system((command + "; exit $fail").c_str());
  };
  EXPECT_EQ(job(3, " --set /train/steps=4"), 0) << read_text(path("err"));
  EXPECT_EQ(job(2, ""), 0) << read_text(path("err"));
  EXPECT_EQ(read_text(path("run/ranks.jsonl")), "{\"step\":0,\"ranks\":3}\n{\"step\":4,\"ranks\":2}\n");
  const auto rows = metric_rows(folder_ / "run");
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows.back().at("samples"), 12 * kRows);
  EXPECT_NE(job(5, ""), 0);
  EXPECT_NE(read_text(path("err")).find("5 ranks cannot share the 12 rows of a step equally"),
            std::string::npos);
  refused("train config.json --elastic --out run --set /seed=6", {"/seed", "6 here, 5 in the run"});
  refused("train config.json --elastic", {"--out"});
  refused("launch -n 2 --elastic train config.json", {"--out"});
  refused("launch -n 2 --at-least 1 train config.json --out other", {"--elastic"});
  refused("launch -n 2 --elastic --at-least 3 train config.json --out other", {"--at-least 3 of 2"});
}

/// A rank is restarted by hand, or by a scheduler that replaces single processes.
TEST_F(Elastic, WithoutALauncherTheOthersWaitForTheLostRank) {
  write_config(40, 600);
  const std::string port = free_port();
  const auto rank = [&](int r) {
    return "train config.json --elastic --out run --comm 127.0.0.1:" + port + " --rank " + std::to_string(r) +
           " --world 2";
  };
  launch(rank(1));
  const pid_t one = std::exchange(launcher_, -1);
  launch(rank(0));
  ASSERT_TRUE(wait_for([&] { return steps_done() >= 6; })) << read_text(path("stderr"));
  kill(one, SIGKILL);
  waitpid(one, nullptr, 0);
  succeed(rank(1));
  EXPECT_EQ(end_of_launcher(), 0);
  EXPECT_EQ(lines_of(read_text(path("run/ranks.jsonl"))).size(), 2u);
  expect_the_bits_of_an_undisturbed_run();
}

}  // namespace elastic_test
}  // namespace hawser::cli_test
