#include "engine/comm/tcp/wire.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace hawser::comm {

int64_t SocketWire::put(std::span<const iovec> parts, std::string* why) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  const ssize_t count = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
  if (count >= 0) return count;
  if (errno == EAGAIN || errno == EINTR) return 0;
  *why = error_text(errno);
  return -1;
}

int64_t SocketWire::take(void* to, int64_t bytes, std::string* why) {
  const ssize_t count = ::recv(socket_.fd(), to, static_cast<size_t>(bytes), 0);
  if (count > 0) return count;
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  *why = count == 0 ? kOtherSideClosed : error_text(errno);
  return -1;
}

pollfd SocketWire::awaited(bool to_put, bool to_take) {
  return {socket_.fd(), static_cast<short>((to_put ? POLLOUT : 0) | (to_take ? POLLIN : 0)), 0};
}

}  // namespace hawser::comm
