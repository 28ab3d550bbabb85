// ProcessTeam: several processes of one command on this machine, as one: their errors come out once each and
// with the rank's number, signals reach all of them, and when one fails, all end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hawser::cli {

class ProcessTeam {
 public:
  /// From here on SIGINT, SIGTERM and SIGHUP are passed on to the processes. One team at a time per process.
  ProcessTeam();
  ~ProcessTeam();
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  /// Starts this program again with `words`, as the next rank. Rank 0 keeps stdout; what the others print
  /// there goes nowhere. It is told to end (SIGTERM) if this process dies. Throws Failure.
  void start(const std::vector<std::string>& words);

  /// Waits for all. Returns the exit code of the first that failed, 128 + its number if a signal killed it,
  /// 130 if they were interrupted, else 0.
  int wait();

 private:
  struct Member {
    pid_t pid = -1;
    int errors = -1;   // its stderr; -1: at its end
    std::string line;  // of stderr, not ended yet
    bool running = true;
  };
  using Clock = std::chrono::steady_clock;

  void read_errors(size_t rank);
  void show(size_t rank, std::string line);
  void collect_ended();
  void ended(size_t rank, int status);
  void hurry();
  void signal_all(int number);
  bool any_running() const;
  bool any_output() const;

  std::vector<Member> members_;
  std::set<std::string> shown_;  // lines: ranks that fail together say the same
  int code_ = 0;                 // of the first that failed
  bool interrupted_ = false;
  Clock::time_point failed_at_{};
  int pushes_ = 0;  // signals sent since then
};

}  // namespace hawser::cli
