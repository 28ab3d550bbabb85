#include "tests/harness/rank_processes.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/comm/gate.h"
#include "engine/comm/rendezvous/socket.h"

namespace hawser::testing {
namespace {

size_t entries(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

std::string read_to_end(int fd) {
  std::string text;
  char block[4096];
  for (ssize_t n = 0; (n = ::read(fd, block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(n));
  ::close(fd);
  return text;
}

}  // namespace

RankProcesses::RankProcesses(int32_t world, double silence_seconds) {
  const comm::Socket probe = comm::listen_on({"127.0.0.1", "0"});
  options_.address = "127.0.0.1:" + std::to_string(comm::listening_port(probe));
  options_.world_size = world;
  options_.timeout_seconds = 30;
  options_.silence_seconds = silence_seconds;
}

std::vector<RankReport> RankProcesses::run(const std::function<std::string(const comm::AddressOptions&)>& fn,
                                           int32_t victim) const {
  struct Child {
    pid_t pid;
    int end;
  };
  std::vector<Child> children;
  for (int32_t rank = 0; rank < options_.world_size; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const Child& other : children) ::close(other.end);
      comm::AddressOptions options = options_;
      options.rank = rank;
      std::string text;
      try {
        text = fn(options);
      } catch (const Error& error) {
        text = fmt::format("{} {}", code_name(error.code()), error.message());
      } catch (const std::exception& error) {
        text = fmt::format("exception {}", error.what());
      }
      [[maybe_unused]] const ssize_t written = ::write(ends[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(ends[1]);
    children.push_back({pid, ends[0]});
  }
  std::vector<RankReport> reports(children.size());
  const auto collect = [&](size_t r) {
    reports[r].text = read_to_end(children[r].end);
    int status = 0;
    ::waitpid(children[r].pid, &status, 0);
    reports[r].killed = WIFSIGNALED(status);
  };
  for (size_t r = 0; r < children.size(); ++r) {
    if (static_cast<int32_t>(r) != victim) collect(r);
  }
  if (victim >= 0) {
    ::kill(children[static_cast<size_t>(victim)].pid, SIGKILL);
    collect(static_cast<size_t>(victim));
  }
  return reports;
}

std::string Belongings::text() const {
  return fmt::format("{} threads, {} descriptors, {} of shared memory", threads, descriptors, shared_memory);
}

Belongings belongings() {
  [[maybe_unused]] static const bool begun = (std::thread([] {}).join(), true);
  Belongings b{entries("/proc/self/task"), entries("/proc/self/fd"), 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    b.shared_memory += line.find("/memfd:hawser") != std::string::npos;
  return b;
}

bool belongings_become(const Belongings& before) {
  const double until = steady_seconds() + 5;
  while (!(belongings() == before) && steady_seconds() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return belongings() == before;
}

}  // namespace hawser::testing
