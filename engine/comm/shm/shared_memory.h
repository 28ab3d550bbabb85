// SharedMemory: memory that two processes of one host have mapped. It has no name, so nothing remains
// if both processes die. One process makes it and sends its descriptor over a Unix socket to the other.
#pragma once

#include <cstdint>
#include <string>

#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  /// Allocates `bytes` bytes of zeros, all of them resident. Nobody can change the size later, so no access
  /// can fail because the other process truncated the memory. Returns a closed object if the system refuses;
  /// `why` then has the reason.
  static SharedMemory make(int64_t bytes, std::string* why);

  bool open() const { return data_ != nullptr; }
  void* data() const { return data_; }

  /// Sends the memory to the other side of a Unix socket, which must have read everything written before. A
  /// closed object sends the message that there is no memory. Returns false if the connection broke.
  bool pass(const Socket& socket);
  /// Receives what pass has sent, until `deadline` or until `interrupt` becomes readable. Returns false if it
  /// did not arrive. Throws kUnavailable if the memory is not `bytes` bytes of fixed size, or cannot be
  /// mapped.
  static bool receive(const Socket& socket, int64_t bytes, double deadline, int interrupt, SharedMemory* out);

 private:
  bool map(int fd, int64_t bytes);

  Socket file_;  ///< open until it is passed
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace hawser::comm
