// ProcessTeam: several processes of one command on this machine, as one: their errors come out once each and
// with the rank's number, signals reach all of them, and when one fails, all end; unless a Supervisor knows
// how to go on.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bindings/cli/job_secret.h"

namespace hawser::cli {

/// What becomes of a team that loses processes. Members are numbered in the order in which they were started.
class Supervisor {
 public:
  virtual ~Supervisor() = default;
  /// A member was killed; `how`: "was killed by signal 9 (Killed)". True: the others go on.
  virtual bool killed(size_t member, const std::string& how) = 0;
  /// A member ended by itself.
  virtual void finished(size_t member, int code) = 0;
  /// Each time that something happened, and once a second.
  virtual void look() = 0;
  /// What else is worth waking up for.
  virtual void add_polled(std::vector<pollfd>* polled) const = 0;
};

class ProcessTeam {
 public:
  /// From here on SIGINT, SIGTERM and SIGHUP are passed on to the processes. One team at a time per process.
  /// Each process is handed `secret`. Of several, one that has been stopped for `still_seconds` is ended.
  ProcessTeam(const std::optional<JobSecret>& secret, double still_seconds);
  ~ProcessTeam();
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  /// Starts this program again with `words`, as the next member, and as the rank of that number until
  /// set_rank says otherwise. Rank 0 keeps stdout, or with `prints` whoever it is; what the others print
  /// there goes nowhere. It inherits the descriptor `inherits`. It is killed (SIGKILL, which reaches it even
  /// if it is stopped) if this process dies. Throws Failure.
  void start(std::vector<std::string> words, bool prints = false, int inherits = -1);
  size_t size() const { return members_.size(); }
  void set_rank(size_t member, int32_t rank) { members_[member].rank = rank; }
  /// Whether it is stopped (SIGSTOP), as far as the last look goes.
  bool stands_still(size_t member) const { return members_[member].stopped; }
  void kill_member(size_t member);
  /// What is said from here on may have been said before.
  void forget_lines() { shown_.clear(); }
  /// A signal has asked all to end.
  bool asked_to_end() const { return asked_to_end_; }

  /// Waits for all. Returns the exit code of the first that failed, 128 + its number if a signal killed it,
  /// 130 if they were interrupted, else 0. What the supervisor goes on after is no failure.
  int wait(Supervisor* supervisor = nullptr);

 private:
  struct Member {
    pid_t pid = -1;
    int errors = -1;   // its stderr; -1: at its end
    std::string line;  // of stderr, not ended yet
    bool running = true, stopped = false, ended_for_standing = false;
    std::chrono::steady_clock::time_point stopped_at{};
    int32_t rank = 0;
  };
  using Clock = std::chrono::steady_clock;

  void read_errors(size_t member);
  void show(size_t member, std::string line);
  void collect_ended();
  void ended(size_t member, int status);
  void end_the_still();
  void hurry();
  void signal_all(int number);
  bool any_running() const;
  bool any_output() const;

  const std::optional<JobSecret> secret_;
  const double still_seconds_;
  std::vector<Member> members_;
  Supervisor* supervisor_ = nullptr;
  std::set<std::string> shown_;  // lines: ranks that fail together say the same
  int code_ = 0;                 // of the first that failed
  bool interrupted_ = false, asked_to_end_ = false;
  Clock::time_point failed_at_{};
  int pushes_ = 0;  // signals sent since then
};

}  // namespace hawser::cli
