// Wire: one rank's end of a connection to another rank: a stream of bytes in each direction. The stream goes
// through a socket, or between processes of one host through shared memory (shm/ring_wire.h). No function
// waits.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>

#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

class Wire {
 public:
  virtual ~Wire() = default;

  /// put sends the first bytes of `parts`, in order; take receives up to `bytes` bytes into `to`. Both move
  /// as many as they can without waiting. They return the number of bytes moved, or -1 if the connection
  /// broke; `why` then has the reason.
  virtual int64_t put(std::span<const iovec> parts, std::string* why) = 0;
  virtual int64_t take(void* to, int64_t bytes, std::string* why) = 0;

  /// Returns what to poll for until put (if `to_put`) or take (if `to_take`) can move bytes. If its
  /// events are 0, one of them can do so now.
  virtual pollfd awaited(bool to_put, bool to_take) = 0;
  /// Call it after each poll, whatever it returned.
  virtual void woke() {}
  /// True if the bytes pass through memory that both processes share.
  virtual bool is_shared() const { return false; }
};

class SocketWire final : public Wire {
 public:
  explicit SocketWire(Socket socket) : socket_(std::move(socket)) {}
  int64_t put(std::span<const iovec> parts, std::string* why) override;
  int64_t take(void* to, int64_t bytes, std::string* why) override;
  pollfd awaited(bool to_put, bool to_take) override;

 private:
  Socket socket_;
};

/// The reason if the other side ended the connection.
inline constexpr const char* kOtherSideClosed = "the other side closed it";

}  // namespace hawser::comm
