// TCP sockets with deadlines: connect, listen, and whole reads and writes. Deadlines are of the steady clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hawser::comm {

/// "host:port" or "[v6 address]:port".
struct HostPort {
  std::string host, port;
  std::string text() const { return host + ":" + port; }
};
/// Throws kInvalidArgument naming the text and what it should look like.
HostPort parse_address(std::string_view address);

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
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

/// Tries until `deadline`, as the other side may not listen yet. Closed if nobody answered; then `why` says
/// what the last try met. Throws kInvalidArgument for a name that cannot be resolved.
Socket connect_until(const HostPort& address, double deadline, std::string* why);

/// Throws kUnavailable, naming the address, if it cannot be listened on.
Socket listen_on(const HostPort& address);
/// The port that a listening socket got (for port 0).
int32_t listening_port(const Socket& socket);

/// All bytes, or false at the deadline, at the end of the connection or at an error.
bool read_all(const Socket& socket, void* data, size_t bytes, double deadline);
bool write_all(const Socket& socket, const void* data, size_t bytes, double deadline);

}  // namespace hawser::comm
