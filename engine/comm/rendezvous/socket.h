// Socket: TCP sockets with deadlines, which connect, listen, and read and write all bytes. Deadlines are
// times of the steady clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/descriptor.h"

namespace hawser::comm {

/// An address "host:port" or "[v6 address]:port".
struct HostPort {
  std::string host, port;
  std::string text() const {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
  }
};
/// Parses an address. Throws kInvalidArgument with the text and the expected form.
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
  /// Wakes a thread that reads or writes; it sees the connection closed. Any thread may call it while the
  /// socket exists.
  void shut_down();

 private:
  int fd_ = -1;
};

/// Connects, retrying until `deadline`, because the other side may not listen yet, or until `interrupt` (a
/// descriptor, -1: none) becomes readable. Returns a closed socket if no connection was made; `why` then has
/// the last error. Throws kInvalidArgument for a name that cannot be resolved.
Socket connect_until(const HostPort& address, double deadline, std::string* why, int interrupt = -1);

/// Listens on an address. Throws kUnavailable, with the address, on failure.
Socket listen_on(const HostPort& address);
/// Returns the port of a listening socket (for port 0).
int32_t listening_port(const Socket& socket);

/// Returns true if both ends of a connection are this socket. If nobody listens on a local port yet, the
/// system may assign that port to the caller itself, and the call connects to itself (simultaneous open, RFC
/// 9293 section 3.5). connect_until() treats this as refused.
bool reached_itself(const Socket& socket);
/// Returns this side's address of a connection, as digits.
std::string local_address(const Socket& socket);
/// Makes the socket send small messages at once (TCP_NODELAY).
void without_delay(const Socket& socket);
/// Returns true if a host (name or address) is this machine's loopback and nothing else.
bool is_loopback(const std::string& host);
/// Returns the first address of a network interface ("eth0"). Throws kInvalidArgument with the existing
/// interfaces.
std::string interface_address(const std::string& name);

/// Reads all bytes. Returns false at the deadline, at the end of the connection, on an error, or once
/// `interrupt` (a descriptor, -1: none) becomes readable.
bool read_all(const Socket& socket, void* data, size_t bytes, double deadline, int interrupt = -1);
bool write_all(const Socket& socket, const void* data, size_t bytes, double deadline, int interrupt = -1);
/// Returns milliseconds for poll; -1 for kNoDeadline.
int milliseconds_until(double deadline);
std::string error_text(int error);

}  // namespace hawser::comm
