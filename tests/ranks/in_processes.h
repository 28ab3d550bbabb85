// in_processes: runs ranks as forked processes of a test, which connect over TCP on the loopback.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/tcp/address.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {

/// Returns a port of the loopback on which nothing listens now.
inline int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

/// Returns what fn(comm) returns in each of `world` forked processes. They share memory, or are connected by
/// sockets.
inline std::vector<std::string> in_processes(
    int32_t world, const std::function<std::string(std::shared_ptr<comm::Comm>)>& fn,
    bool shares_memory = true) {
  comm::AddressOptions options;
  options.shares_memory = shares_memory;
  options.address = "127.0.0.1:" + std::to_string(free_port());
  options.world_size = world;
  options.timeout_seconds = 20;
  std::vector<std::pair<pid_t, int>> children;
  for (int32_t rank = 0; rank < world; ++rank) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      std::string text;
      try {
        options.rank = rank;
        text = fn(comm::make_address(options));
      } catch (const Error& e) {
        text = "error " + e.message();
      }
      [[maybe_unused]] const ssize_t written = ::write(ends[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  std::vector<std::string> texts;
  for (const auto& [child, end] : children) {
    texts.emplace_back();
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(end, buffer, sizeof buffer)) > 0;)
      texts.back().append(buffer, static_cast<size_t>(n));
    ::close(end);
    ::waitpid(child, nullptr, 0);
  }
  return texts;
}

inline Layout layout(int64_t replicate, int64_t shard, int64_t stage, const char* reduce) {
  Layout l;
  l.dp_replicate = replicate, l.dp_shard = shard, l.stage = stage, l.accumulation = 2, l.reduce = reduce;
  return l;
}

}  // namespace hawser::testing
