// ProcessTeam: a group of processes of one command on this machine that runs as one. Each error is shown
// once, with the rank's number. Signals are passed on to all processes. If one process fails, all of them are
// ended, unless a Supervisor decides otherwise.
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

/// Decides what happens when a team loses processes. Members are numbered in the order in which they were
/// started.
class Supervisor {
 public:
  virtual ~Supervisor() = default;
  /// A member was killed; `how` is, for example, "was killed by signal 9 (Killed)". Returns true if the other
  /// members continue.
  virtual bool killed(size_t member, const std::string& how) = 0;
  /// A member exited by itself.
  virtual void finished(size_t member, int code) = 0;
  /// Called after each event, and once a second.
  virtual void look() = 0;
  /// Adds descriptors to wait for.
  virtual void add_polled(std::vector<pollfd>* polled) const = 0;
};

class ProcessTeam {
 public:
  /// From now on SIGINT, SIGTERM and SIGHUP are passed on to the processes. One team at a time per process.
  /// Each process receives `secret`. With several processes, one that has been stopped for `still_seconds` is
  /// killed.
  ProcessTeam(const std::optional<JobSecret>& secret, double still_seconds);
  ~ProcessTeam();
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  /// Starts this program with `words` as the next member, whose rank has the same number until set_rank. Rank
  /// 0 and members with `prints` keep stdout; the stdout of other members is discarded. The member inherits
  /// the descriptor `inherits`. If this process dies, the member gets SIGKILL, which works even if it is
  /// stopped. Throws Failure.
  void start(std::vector<std::string> words, bool prints = false, int inherits = -1);
  size_t size() const { return members_.size(); }
  void set_rank(size_t member, int32_t rank) { members_[member].rank = rank; }
  /// True if the member was stopped (SIGSTOP) when last checked.
  bool is_stopped(size_t member) const { return members_[member].stopped; }
  void kill_member(size_t member);
  /// Allows lines to be shown again that were shown before.
  void forget_lines() { shown_.clear(); }
  /// True if a signal has asked all processes to stop.
  bool asked_to_end() const { return asked_to_end_; }

  /// Waits for all processes. Returns the exit code of the first process that failed, 128 + the signal's
  /// number if it was killed, 130 if the processes were interrupted, otherwise 0. Losses that the supervisor
  /// accepts are not failures.
  int wait(Supervisor* supervisor = nullptr);

 private:
  struct Member {
    pid_t pid = -1;
    int errors = -1;   // read end of its stderr; -1 once it has ended
    std::string line;  // incomplete last line of stderr
    bool running = true, stopped = false, ended_for_standing = false;
    std::chrono::steady_clock::time_point stopped_at{};
    int32_t rank = 0;
  };
  using Clock = std::chrono::steady_clock;

  void read_errors(size_t member);
  void show(size_t member, std::string line);
  void collect_ended();
  void ended(size_t member, int status);
  void kill_stopped();
  void hurry();
  void signal_all(int number);
  bool any_running() const;
  bool any_output() const;

  const std::optional<JobSecret> secret_;
  const double still_seconds_;
  std::vector<Member> members_;
  Supervisor* supervisor_ = nullptr;
  std::set<std::string> shown_;  // lines already shown: ranks that fail together print the same line
  int code_ = 0;                 // exit code of the first process that failed
  bool interrupted_ = false, asked_to_end_ = false;
  Clock::time_point failed_at_{};
  int pushes_ = 0;  // signals sent since then
};

}  // namespace hawser::cli
