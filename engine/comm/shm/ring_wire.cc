#include "engine/comm/shm/ring_wire.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

namespace hawser::comm {

int64_t shared_bytes(int32_t world_size) { return 2 * SharedRing::bytes_of(ring_capacity(world_size)); }

RingWire::RingWire(Socket socket, SharedMemory memory, int32_t world_size, bool is_lower)
    : socket_(std::move(socket)),
      memory_(std::move(memory)),
      out_(static_cast<char*>(memory_.data()) + (is_lower ? 0 : shared_bytes(world_size) / 2),
           ring_capacity(world_size)),
      in_(static_cast<char*>(memory_.data()) + (is_lower ? shared_bytes(world_size) / 2 : 0),
          ring_capacity(world_size)) {}

/// Returns the bytes moved, after waking the other side if it sleeps.
int64_t RingWire::moved(const SharedRing::Moved& moved, bool lost, std::string* why) {
  if (moved.bytes < 0) {
    *why = "its byte counts in shared memory are invalid";
    return -1;
  }
  if (moved.bytes == 0 && lost) {
    *why = kOtherSideClosed;
    return -1;
  }
  if (moved.wakes) {
    // A full socket (EAGAIN) already holds bytes that will wake the other side.
    const char byte = 0;
    [[maybe_unused]] const ssize_t sent = ::send(socket_.fd(), &byte, 1, MSG_NOSIGNAL);
  }
  return moved.bytes;
}

int64_t RingWire::put(std::span<const iovec> parts, std::string* why) {
  const auto all = std::accumulate(
      parts.begin(), parts.end(), int64_t{0},
      [](int64_t sum, const iovec& part) { return sum + static_cast<int64_t>(part.iov_len); });
  const int64_t count = moved(closed_ ? SharedRing::Moved() : out_.put(parts), closed_, why);
  left_to_put_ = all - count;
  return count;
}

/// Bytes that arrived before the other side ended can still be read.
int64_t RingWire::take(void* to, int64_t bytes, std::string* why) {
  return moved(in_.take(to, bytes), closed_, why);
}

/// A side does not spin before it sleeps: on two cores, spinning gained nothing with two or four ranks, and
/// took many times as long while any other thread was busy.
pollfd RingWire::awaited(bool to_put, bool to_take) {
  const bool sleeps = !closed_ && (!to_take || in_.reader_sleeps()) &&
                      (!to_put || out_.writer_sleeps(std::max<int64_t>(1, left_to_put_)));
  if (!sleeps) woke();
  return {socket_.fd(), static_cast<short>(sleeps ? POLLIN : 0), 0};
}

void RingWire::woke() {
  in_.reader_woke();
  out_.writer_woke();
  char bytes[64];
  ssize_t count = 0;
  while ((count = ::recv(socket_.fd(), bytes, sizeof(bytes), 0)) > 0) {
  }
  closed_ = closed_ || count == 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace hawser::comm
