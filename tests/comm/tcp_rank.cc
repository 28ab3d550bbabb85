// One rank as a process, for tcp_process_test: tcp_rank ADDRESS RANK WORLD (operations | die). Exits with 0
// if all was as expected; otherwise reports the difference on stderr.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/comm/operations.h"
#include "tests/comm/tcp_worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

/// Kills the last rank between two barriers; the errors of the other ranks must name it, and soon.
void survive(comm::RankComm& rank) {
  const auto group = world_group(rank);
  group->wait(group->barrier());
  if (rank.rank() == rank.world_size() - 1) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(200));  // by then the other ranks are past the first barrier
    raise(SIGKILL);
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::string dead = "rank " + std::to_string(rank.world_size() - 1) + " of";
  try {
    for (;;) group->wait(group->barrier());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnavailable) << error.message();
    EXPECT_NE(error.message().find(dead), std::string::npos) << error.message();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

int run(int argc, char** argv) {
  if (argc != 5) return 2;
  const int32_t rank = std::atoi(argv[2]);
  const auto comm = comm::make_address(address_options(argv[1], rank, std::atoi(argv[3])));
  const auto end = comm->connect(rank, test_comm_options());
  if (std::string(argv[4]) == "die") {
    survive(*end);
  } else {
    check_every_operation(*end);
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace hawser::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest();
  try {
    return hawser::testing::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
