#include "engine/comm/tcp/mesh.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "engine/base/error.h"
#include "engine/comm/gate.h"

namespace hawser::comm {
namespace {

constexpr int32_t status_of(Code code) { return static_cast<int32_t>(code); }

/// Most bytes that one call of send or recv moves: so many that the call's cost is negligible, and so few
/// that the other direction of an exchange does not wait long.
constexpr int64_t kPortion = int64_t{1} << 20;

}  // namespace

/// Sends tag and data in one system call.
int32_t Mesh::put(int32_t peer, const Outgoing& out, int64_t* sent) {
  const int64_t tag_left = std::max<int64_t>(0, out.tag_bytes - *sent);
  const int64_t data_at = std::max<int64_t>(0, *sent - out.tag_bytes);
  iovec parts[2] = {{const_cast<char*>(static_cast<const char*>(out.tag)) + (out.tag_bytes - tag_left),
                     static_cast<size_t>(tag_left)},
                    {const_cast<char*>(static_cast<const char*>(out.data)) + data_at,
                     static_cast<size_t>(std::min(kPortion, out.bytes - data_at))}};
  msghdr message{};
  message.msg_iov = tag_left > 0 ? parts : parts + 1;
  message.msg_iovlen = tag_left > 0 ? 2 : 1;
  const ssize_t count = ::sendmsg(links_[static_cast<size_t>(peer)].fd(), &message, MSG_NOSIGNAL);
  if (count < 0 && errno != EAGAIN && errno != EINTR) return broke(peer, error_text(errno));
  *sent += std::max<ssize_t>(count, 0);
  return 0;
}

/// Reads the tag first: data is read only after the tag has proved to be the expected one.
int32_t Mesh::take(int32_t peer, const Incoming& in, int64_t* received) {
  const bool in_tag = *received < in.tag_bytes;
  char* const to = in_tag ? static_cast<char*>(in.tag) + *received
                          : static_cast<char*>(in.data) + (*received - in.tag_bytes);
  const int64_t left = in_tag ? in.tag_bytes - *received : in.tag_bytes + in.bytes - *received;
  const ssize_t count =
      ::recv(links_[static_cast<size_t>(peer)].fd(), to, static_cast<size_t>(std::min(kPortion, left)), 0);
  if (count == 0) return broke(peer, "the other side closed it");
  if (count < 0 && errno != EAGAIN && errno != EINTR) return broke(peer, error_text(errno));
  *received += std::max<ssize_t>(count, 0);
  return in_tag && *received == in.tag_bytes && !in.fits(in.user) ? kRefused : 0;
}

int32_t Mesh::exchange(int32_t peer, const Outgoing& out, const Incoming& in, double seconds) {
  message.clear();
  const double deadline = steady_seconds() + seconds;
  const int64_t to_send = out.tag_bytes + out.bytes, to_receive = in.tag_bytes + in.bytes;
  int64_t sent = 0, received = 0;
  for (;;) {
    const int64_t before = sent + received;
    int32_t status = sent < to_send ? put(peer, out, &sent) : 0;
    if (status == 0 && received < to_receive) status = take(peer, in, &received);
    if (status != 0) return status;
    if (sent == to_send && received == to_receive) return 0;
    if (sent + received > before) continue;
    const int events = (sent < to_send ? POLLOUT : 0) | (received < to_receive ? POLLIN : 0);
    pollfd entries[2] = {{links_[static_cast<size_t>(peer)].fd(), static_cast<short>(events), 0},
                         {interrupt_, POLLIN, 0}};
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
