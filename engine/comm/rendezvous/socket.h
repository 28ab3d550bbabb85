// TCP sockets with deadlines: connect, listen, and whole reads and writes. Deadlines are of the steady clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/descriptor.h"

namespace hawser::comm {

/// "host:port" or "[v6 address]:port".
struct HostPort {
  std::string host, port;
  std::string text() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
  }
};
/// Throws kInvalidArgument naming the text and what it should look like.
HostPort parse_address(std::string_view address);

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(beyond_standard(fd)) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close();
  /// Wakes a thread that reads or writes; it sees the connection closed. Any thread, while the socket lives.
  void shut_down();

 private:
  int fd_ = -1;
};

/// Tries until `deadline`, as the other side may not listen yet, or until `interrupt` (a descriptor, -1:
/// none) can be read. Closed if nobody answered; then `why` says what the last try met. Throws
/// kInvalidArgument for a name that cannot be resolved.
Socket connect_until(const HostPort& address, double deadline, std::string* why, int interrupt = -1);

/// Throws kUnavailable, naming the address, if it cannot be listened on.
Socket listen_on(const HostPort& address);
/// The port that a listening socket got (for port 0).
int32_t listening_port(const Socket& socket);

/// Whether both ends of a connection are this socket: the system may give a caller of a port of its own that
/// nobody listens on yet that very port to call from, and the call answers itself (simultaneous open, RFC
/// 9293 section 3.5). connect_until() takes such a call as refused.
bool reached_itself(const Socket& socket);
/// This side's address of a connection, as digits.
std::string local_address(const Socket& socket);
/// Small messages leave at once.
void without_delay(const Socket& socket);
/// Whether a host (name or address) is this machine's loopback and nothing else.
bool is_loopback(const std::string& host);
/// The first address of a network interface ("eth0"). Throws kInvalidArgument, naming those that there are.
std::string interface_address(const std::string& name);

/// All bytes, or false at the deadline, at the end of the connection, at an error, or once `interrupt` (a
/// descriptor, -1: none) can be read.
bool read_all(const Socket& socket, void* data, size_t bytes, double deadline, int interrupt = -1);
bool write_all(const Socket& socket, const void* data, size_t bytes, double deadline, int interrupt = -1);
/// Milliseconds for poll; -1 for kNoDeadline.
int milliseconds_until(double deadline);
std::string error_text(int error);

}  // namespace hawser::comm
