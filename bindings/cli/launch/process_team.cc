// Starts processes, passes signals on to them and shows their errors.
#include "bindings/cli/launch/process_team.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "bindings/cli/client.h"

namespace hawser::cli {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};
/// Time for the other processes to report and exit by themselves before SIGTERM, which asks training
/// processes to stop and ends processes that are still connecting; and then before SIGKILL.
constexpr std::chrono::seconds kBeforeAsked{2}, kBeforeKilled{12};

constexpr const char* kStoodStill = "hung and was killed";

volatile std::sig_atomic_t g_signals[3] = {0, 0, 0};  // number of arrivals of each of kForwarded

extern "C" void on_team_signal(int number) {
  for (size_t i = 0; i < std::size(kForwarded); ++i) {
    if (kForwarded[i] == number) g_signals[i] = g_signals[i] + 1;
  }
}
extern "C" void on_child(int /*number*/) {}  // interrupts the poll

void install(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : kForwarded) sigaddset(&set, number);
  return set;
}

[[noreturn]] void fail_start(const char* what) {
  throw Failure(HWS_UNAVAILABLE, std::string("cannot start a rank: ") + what + ": " + std::strerror(errno));
}

std::string killed_by(int number) {
  return "was killed by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
}

/// Closes a descriptor; -1: none.
struct Descriptor {
  explicit Descriptor(int descriptor) : fd(descriptor) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  const int fd;
};

/// Runs in the new process up to exec. Makes only async-signal-safe calls.
[[noreturn]] void become_rank(char* const* words, int errors, bool prints,
                              const std::array<int, 2>& inherited, pid_t parent) {
  // Its own process group: Ctrl-C goes to the launcher, which passes it on once.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);               // a stopped process handles no other signal
  if (getppid() != parent) _exit(128 + SIGKILL);  // the launcher died before prctl
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  if (!prints) dup2(nothing, STDOUT_FILENO);
  for (const int descriptor : inherited) {
    if (descriptor >= 0) fcntl(descriptor, F_SETFD, 0);
  }
  dup2(errors, STDERR_FILENO);
  for (const int number : kForwarded) std::signal(number, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL);
  const sigset_t watched = watched_signals();
  sigprocmask(SIG_UNBLOCK, &watched, nullptr);
  execv("/proc/self/exe", words);
  _exit(127);
}

}  // namespace

ProcessTeam::ProcessTeam(const std::optional<JobSecret>& secret, double still_seconds)
    : secret_(secret), still_seconds_(still_seconds) {
  const sigset_t watched = watched_signals();
  sigprocmask(SIG_BLOCK, &watched, nullptr);  // delivered only in ppoll
  for (const int number : kForwarded) install(number, on_team_signal);
  install(SIGCHLD, on_child);
}

ProcessTeam::~ProcessTeam() {
  for (Member& member : members_) {
    if (member.running) {
      kill(member.pid, SIGKILL);
      waitpid(member.pid, nullptr, 0);
    }
    if (member.errors >= 0) close(member.errors);
  }
  for (const int number : kForwarded) install(number, SIG_DFL);
  install(SIGCHLD, SIG_DFL);
  const sigset_t watched = watched_signals();
  sigprocmask(SIG_UNBLOCK, &watched, nullptr);
}

void ProcessTeam::start(std::vector<std::string> words, bool prints, int inherits) {
  const Descriptor secret(secret_ ? secret_->hand_over() : -1);
  if (secret_) words.insert(words.end(), {"--secret-fd", std::to_string(secret.fd)});
  std::vector<char*> arguments = {const_cast<char*>("hawser")};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_start("pipe");
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) {
    become_rank(arguments.data(), ends[1], prints || members_.empty(), {inherits, secret.fd}, parent);
  }
  const int error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    errno = error;
    fail_start("fork");
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Member member;
  member.pid = pid;
  member.errors = ends[0];
  member.rank = static_cast<int32_t>(members_.size());
  members_.push_back(std::move(member));
}

int ProcessTeam::wait(Supervisor* supervisor) {
  supervisor_ = supervisor;
  std::array<int, std::size(kForwarded)> passed_on = {};
  sigset_t none;
  sigemptyset(&none);
  while (any_running() || any_output()) {
    for (size_t i = 0; i < passed_on.size(); ++i) {
      for (; passed_on[i] < g_signals[i]; ++passed_on[i]) {
        asked_to_end_ = true;
        signal_all(kForwarded[i]);
      }
    }
    collect_ended();
    kill_stopped();
    if (code_ != 0 && any_running()) hurry();
    if (supervisor_ != nullptr && code_ == 0) supervisor_->look();
    std::vector<pollfd> polled;
    std::vector<size_t> ranks;
    for (size_t r = 0; r < members_.size(); ++r) {
      if (members_[r].errors < 0) continue;
      polled.push_back({members_[r].errors, POLLIN, 0});
      ranks.push_back(r);
    }
    if (!any_running() && polled.empty()) break;
    if (supervisor_ != nullptr) supervisor_->add_polled(&polled);
    const timespec second = {1, 0};
    if (ppoll(polled.data(), polled.size(), &second, &none) <= 0) continue;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i].revents != 0) read_errors(ranks[i]);
    }
  }
  return code_ != 0 ? code_ : interrupted_ ? kExitInterrupted : kExitOk;
}

bool ProcessTeam::any_running() const {
  for (const Member& member : members_) {
    if (member.running) return true;
  }
  return false;
}

bool ProcessTeam::any_output() const {
  for (const Member& member : members_) {
    if (member.errors >= 0) return true;
  }
  return false;
}

void ProcessTeam::read_errors(size_t index) {
  Member& member = members_[index];
  char block[4096];
  const ssize_t n = ::read(member.errors, block, sizeof block);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    close(member.errors);
    member.errors = -1;
    if (!member.line.empty()) show(index, std::exchange(member.line, ""));
    return;
  }
  for (const char c : std::string_view(block, static_cast<size_t>(n))) {
    if (c != '\n') {
      member.line += c;
    } else {
      show(index, std::exchange(member.line, ""));
    }
  }
}

/// "hawser: error: TEXT" becomes "hawser: error: rank R: TEXT", unless TEXT already begins with a rank, as
/// the error of another rank does.
void ProcessTeam::show(size_t member, std::string line) {
  size_t at = 0;
  for (const char* head : {"hawser: error: ", "hawser: note: "}) {
    if (line.starts_with(head)) at = std::strlen(head);
  }
  if (line.compare(at, 5, "rank ") != 0)
    line.insert(at, "rank " + std::to_string(members_[member].rank) + ": ");
  if (shown_.insert(line).second) std::fprintf(stderr, "%s\n", line.c_str());
}

void ProcessTeam::collect_ended() {
  std::vector<std::pair<size_t, int>> found;
  for (size_t r = 0; r < members_.size(); ++r) {
    Member& member = members_[r];
    int status = 0;
    if (!member.running || waitpid(member.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != member.pid)
      continue;
    if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
      member.stopped = WIFSTOPPED(status);
      member.stopped_at = Clock::now();
      continue;
    }
    member.running = false;
    found.emplace_back(r, status);
  }
  // If several processes ended since the last check, one that was killed is the cause.
  for (const bool killed : {true, false}) {
    for (const auto& [rank, status] : found) {
      if (WIFSIGNALED(status) == killed) ended(rank, status);
    }
  }
}

void ProcessTeam::ended(size_t member, int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == kExitInterrupted) interrupted_ = true;
  const std::string how = members_[member].ended_for_standing ? kStoodStill
                          : WIFSIGNALED(status)               ? killed_by(WTERMSIG(status))
                                                              : "";
  if (supervisor_ != nullptr && code_ == 0) {
    if (how.empty()) supervisor_->finished(member, code);
    if (!how.empty() && supervisor_->killed(member, how)) return;
  }
  if (code == kExitOk || code == kExitInterrupted || code_ != 0) return;
  code_ = code;
  failed_at_ = Clock::now();
  if (!how.empty()) show(member, "hawser: error: rank " + std::to_string(members_[member].rank) + " " + how);
}

void ProcessTeam::kill_member(size_t member) {
  if (members_[member].running) kill(members_[member].pid, SIGKILL);
}

/// Kills stopped processes. A stopped process handles no signal except SIGKILL and could not clean up, so the
/// launcher does not wait for it after the job has failed, nor longer than the ranks that wait for it would.
void ProcessTeam::kill_stopped() {
  for (Member& member : members_) {
    if (!member.running || !member.stopped) continue;
    const std::chrono::duration<double> still = Clock::now() - member.stopped_at;
    const bool late = still.count() >= still_seconds_ && (members_.size() > 1 || asked_to_end_);
    if (code_ == 0 && !late) continue;
    member.ended_for_standing = true;
    kill(member.pid, SIGKILL);
  }
}

void ProcessTeam::hurry() {
  if (Clock::now() - failed_at_ < (pushes_ == 0 ? kBeforeAsked : kBeforeKilled)) return;
  signal_all(pushes_++ == 0 ? SIGTERM : SIGKILL);
}

void ProcessTeam::signal_all(int number) {
  for (const Member& member : members_) {
    if (member.running) kill(member.pid, number);
  }
}

}  // namespace hawser::cli
