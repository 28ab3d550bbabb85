// Tests of ranks as processes over TCP, and of failures before they are connected.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <thread>

#include "tests/comm/tcp_worlds.h"

extern char** environ;

namespace hawser::testing {
namespace tcp_process_test {

/// Starts a process for each rank; returns their exit statuses, as from waitpid.
std::vector<int> run_processes(int32_t world, const std::string& mode) {
  const std::string address = free_address(), size = std::to_string(world);
  std::vector<pid_t> processes(static_cast<size_t>(world));
  for (int32_t r = 0; r < world; ++r) {
    const std::string rank = std::to_string(r);
    const char* arguments[] = {HAWSER_TCP_RANK, address.c_str(), rank.c_str(),
                               size.c_str(),    mode.c_str(),    nullptr};
    EXPECT_EQ(
        posix_spawn(&processes[r], HAWSER_TCP_RANK, nullptr, nullptr, const_cast<char**>(arguments), environ),
        0);
  }
  std::vector<int> statuses;
  for (const pid_t process : processes) {
    int status = -1;
    waitpid(process, &status, 0);
    statuses.push_back(status);
  }
  return statuses;
}

TEST(TcpProcesses, GiveTheReferencesBits) {
  for (const int status : run_processes(3, "operations")) EXPECT_EQ(status, 0);
}

TEST(TcpProcesses, HearAtOnceWhichOneDied) {
  const std::vector<int> statuses = run_processes(4, "die");
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(statuses[r], 0) << "rank " << r;
  EXPECT_TRUE(WIFSIGNALED(statuses[3]));
}

TEST(TcpAddress, AMissingRankIsNamedOnAllOthers) {
  const std::string address = free_address();
  std::vector<Caught> errors(4);
  std::vector<std::thread> threads;
  for (const int32_t r : {0, 1, 2}) {
    threads.emplace_back([&, r] {
      comm::AddressOptions options = address_options(address, r, 4);
      options.timeout_seconds = 0.5;
      try {
        comm::make_address(options);
      } catch (...) {
        errors[r] = caught(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int32_t r : {0, 1, 2}) {
    EXPECT_EQ(errors[r].code, static_cast<int32_t>(Code::kTimeout));
    EXPECT_EQ(errors[r].message, "rank 3 of 4 did not connect within 0.5 s");
  }
}

/// The second rank 0 cannot listen, because the first one listens.
TEST(TcpAddress, TwoRanksZeroAreBothToldSo) {
  const std::string address = free_address();
  std::vector<Caught> errors(2);
  std::vector<std::thread> threads;
  for (Caught& error : errors) {
    threads.emplace_back([&] {
      try {
        comm::make_address(address_options(address, 0, 2));
      } catch (...) {
        error = caught(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Caught& error : errors) {
    EXPECT_EQ(error.code, static_cast<int32_t>(Code::kInvalidArgument)) << error.message;
    EXPECT_NE(error.message.find("two processes have rank 0 of 2"), std::string::npos) << error.message;
  }
}

}  // namespace tcp_process_test
}  // namespace hawser::testing
