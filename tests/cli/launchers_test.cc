// Tests `--comm env` under launchers, and a job's secret. Uses mpirun and torchrun if they are installed, and
// sets the variables of other launchers by hand.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace launchers_test {

using nlohmann::json;

class Launchers : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    auto c = config();
    c["batch"] = {{"micro_batch", 1}, {"global_batch", 4}};
    c["train"] = {{"steps", 6}, {"log_every", 2}, {"eval_every", 0}};
    c["data"]["path"] = path("text.txt");
    c["mesh"] = {{"dp_shard", 2}};
    c["zero"] = {{"stage", 2}};
    write_text(path("config.json"), c.dump());
  }
  bool shell(const std::string& command) const {
    return std::system(("cd '" + folder_.string() + "' && { " + command + "; } >out.txt 2>err.txt </dev/null")
                           .c_str()) == 0;
  }
  void expect_the_run_of_local_ranks(const std::string& run) const {
    succeed("train config.json --out local");
    EXPECT_EQ(metric_rows(folder_ / run), metric_rows(folder_ / "local"));
    EXPECT_EQ(metric_rows(folder_ / run).size(), 6u);
  }
  /// Runs a shell command for each of two ranks at the same time. Returns true if both succeeded.
  bool both(const std::string& variables, const std::string& words) const {
    const auto one = [&](int rank) {
      return "env " + std::string("RANK=") + std::to_string(rank) + " WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 " +
             variables + " " HAWSER_COMMAND " " + words;
    };
    return shell(one(1) + " & other=$!; " + one(0) + "; first=$?; wait $other && [ $first = 0 ]");
  }
};

TEST_F(Launchers, MpirunStartsRanks) {
  if (std::system("command -v mpirun >/dev/null") != 0)
    GTEST_SKIP() << "Open MPI is not here (Debian: openmpi-bin)";
  ASSERT_TRUE(shell("mpirun --allow-run-as-root --oversubscribe -n 2 " HAWSER_COMMAND
                    " train config.json --comm env --out run"))
      << read_text(path("err.txt"));
  expect_the_run_of_local_ranks("run");
}

TEST_F(Launchers, TorchrunStartsRanks) {
  if (std::system("command -v torchrun >/dev/null") != 0)
    GTEST_SKIP() << "torchrun is not here (PyPI: torch)";
  ASSERT_TRUE(shell("torchrun --standalone --nproc-per-node 2 --no-python " HAWSER_COMMAND
                    " train config.json --comm env --out run"))
      << read_text(path("err.txt"));
  expect_the_run_of_local_ranks("run");
}

TEST_F(Launchers, TorchrunStartsAnElasticRunAgain) {
  if (std::system("command -v torchrun >/dev/null") != 0)
    GTEST_SKIP() << "torchrun is not here (PyPI: torch)";
  ASSERT_TRUE(
      shell("torchrun --standalone --max-restarts 2 --nproc-per-node 2 --no-python " HAWSER_COMMAND
            " train config.json --elastic --comm env --out run --set /train/steps=400"
            " --set /checkpoint/every=5 & torchrun=$!;"
            " until [ \"$(wc -l <run/metrics.jsonl)\" -ge 20 ] || ! kill -0 $torchrun; do sleep 0.02; done"
            " 2>/dev/null; kill -9 $(pgrep -P $torchrun | tail -1); wait $torchrun"))
      << read_text(path("err.txt"));
  EXPECT_EQ(metric_rows(folder_ / "run").size(), 400u);
  EXPECT_EQ(lines_of(read_text(path("run/ranks.jsonl"))).size(), 2u);
}

TEST_F(Launchers, VariablesAloneStartRanksAndSayWhichTheyWere) {
  const std::string port = free_port(), master = "MASTER_ADDR=localhost MASTER_PORT=" + port;
  ASSERT_TRUE(both(master, "train config.json --comm env --out run")) << read_text(path("err.txt"));
  expect_the_run_of_local_ranks("run");
  ASSERT_TRUE(shell("env RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 " + master +
                    " " HAWSER_COMMAND " explain --comm env --json"))
      << read_text(path("err.txt"));
  const auto found = json::parse(read_text(path("out.txt")));
  EXPECT_EQ(found.at("launcher"), "torchrun");
  EXPECT_EQ(found.at("rank"), 1);
  EXPECT_EQ(found.at("address"), "127.0.0.1:" + port);
  EXPECT_EQ(found.at("read").at(0), (json{{"name", "RANK"}, {"value", "1"}}));
}

TEST_F(Launchers, NoLauncherIsSaid) {
  refused("train config.json --comm env", {"no launcher started this process", "srun"});
  refused("train config.json --comm env --rank 0 --world 2", {"--comm env reads rank and world"});
  refused("train config.json --trust-network", {"--comm"});
}

TEST_F(Launchers, ASecretLetsRanksInThatKnowIt) {
  if (!fs::exists(fs::path(HAWSER_COMMAND).parent_path() / "hawser-0" / "libhawser_identity.so")) {
    GTEST_SKIP() << "libhawser_identity.so is not built";
  }
  write_text(path("secret"), std::string(32, 's') + "\n");
  refused("train config.json --comm 127.0.0.1:1 --rank 0 --world 2 --secret-file secret", {"chmod 600"});
  fs::permissions(path("secret"), fs::perms::owner_read | fs::perms::owner_write);
  const std::string master = "MASTER_ADDR=localhost MASTER_PORT=" + free_port();
  ASSERT_TRUE(both(master + " HAWSER_SECRET_FILE=secret", "train config.json --comm env --out run"))
      << read_text(path("err.txt"));
  expect_the_run_of_local_ranks("run");
  // Rank 1 first tries without the secret and then with it; rank 0 waits for the second try.
  const std::string rank =
      " WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 " + master + " " HAWSER_COMMAND " train config.json --comm env ";
  const std::string late = "--secret-file secret --out late";
  ASSERT_TRUE(shell("env RANK=0" + rank + late + " & zero=$!; env RANK=1" + rank +
                    "--out late && exit 1; env RANK=1" + rank + late + " && wait $zero"))
      << read_text(path("err.txt"));
  const std::string err = read_text(path("err.txt"));
  EXPECT_NE(err.find("rank 1 has no secret, but rank 0 has one"), std::string::npos) << err;
  EXPECT_EQ(metric_rows(folder_ / "late"), metric_rows(folder_ / "local"));
}

}  // namespace launchers_test
}  // namespace hawser::cli_test
