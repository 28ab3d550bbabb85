#include "engine/comm/shm/local_socket.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>

namespace hawser::comm {
namespace {

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

/// An abstract name begins with a zero byte and ends with the address.
Name abstract(const std::string& name) {
  Name n;
  n.address.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(n.address.sun_path) - 1);
  std::copy_n(name.data(), bytes, n.address.sun_path + 1);
  n.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return n;
}

Socket make_local() { return Socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

std::string this_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat space {};
  if (!std::getline(file, boot) || stat("/proc/self/ns/net", &space) != 0) return "";
  return fmt::format("{}-{:x}-{:x}", boot, space.st_dev, space.st_ino);
}

Socket listen_here(std::string* name) {
  unsigned char random[16];
  if (getrandom(random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) return {};
  *name = "hawser-";
  for (const unsigned char byte : random) *name += fmt::format("{:02x}", byte);
  const Name n = abstract(*name);
  Socket socket = make_local();
  if (!socket.open() || bind(socket.fd(), reinterpret_cast<const sockaddr*>(&n.address), n.size) != 0 ||
      listen(socket.fd(), SOMAXCONN) != 0) {
    return {};
  }
  return socket;
}

Socket connect_here(const std::string& name, std::string* why) {
  const Name n = abstract(name);
  Socket socket = make_local();
  if (socket.open() && connect(socket.fd(), reinterpret_cast<const sockaddr*>(&n.address), n.size) == 0)
    return socket;
  *why = error_text(errno);
  return {};
}

}  // namespace hawser::comm
