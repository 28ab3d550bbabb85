#include "engine/comm/tcp/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "engine/base/error.h"
#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

constexpr int32_t status_of(Code code) { return static_cast<int32_t>(code); }

/// What one call of send or recv may move: so much that the call costs nothing beside it, so little that the
/// other direction of an exchange is not left waiting.
constexpr int64_t kPortion = int64_t{1} << 20;

}  // namespace

int32_t Mesh::send(int32_t to, const void* data, int64_t bytes, double seconds) {
  return exchange(to, data, bytes, nullptr, 0, seconds);
}

int32_t Mesh::recv(int32_t from, void* data, int64_t bytes, double seconds) {
  return exchange(from, nullptr, 0, data, bytes, seconds);
}

int32_t Mesh::exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                       double seconds) {
  message.clear();
  const double deadline = steady_seconds() + seconds;
  const int fd = links_[static_cast<size_t>(peer)].fd();
  int64_t sent = 0, received = 0;
  for (;;) {
    bool moved = false;
    if (sent < out_bytes) {
      const auto portion = static_cast<size_t>(std::min(kPortion, out_bytes - sent));
      const ssize_t put = ::send(fd, static_cast<const char*>(out) + sent, portion, MSG_NOSIGNAL);
      if (put < 0 && errno != EAGAIN && errno != EINTR) return broke(peer, error_text(errno));
      moved = put > 0;
      sent += std::max<ssize_t>(put, 0);
    }
    if (received < in_bytes) {
      const auto portion = static_cast<size_t>(std::min(kPortion, in_bytes - received));
      const ssize_t got = ::recv(fd, static_cast<char*>(in) + received, portion, 0);
      if (got == 0) return broke(peer, "it was closed there");
      if (got < 0 && errno != EAGAIN && errno != EINTR) return broke(peer, error_text(errno));
      moved = moved || got > 0;
      received += std::max<ssize_t>(got, 0);
    }
    if (sent == out_bytes && received == in_bytes) return 0;
    if (moved) continue;
    const int events = (sent < out_bytes ? POLLOUT : 0) | (received < in_bytes ? POLLIN : 0);
    pollfd entries[2] = {{fd, static_cast<short>(events), 0}, {interrupt_, POLLIN, 0}};
    const int ready = poll(entries, 2, milliseconds_until(deadline));
    if (entries[1].revents != 0) return status_of(Code::kAborted);
    if (ready == 0 && steady_seconds() >= deadline) return status_of(Code::kTimeout);
  }
}

int32_t Mesh::broke(int32_t peer, const std::string& how) {
  message = fmt::format("the connection to rank {} broke: {}", peer, how);
  return status_of(Code::kUnavailable);
}

}  // namespace hawser::comm
