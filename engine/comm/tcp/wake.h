// Wake: one thread's word to others that wait in poll, said once and for all.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "engine/base/error.h"
#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

class Wake {
 public:
  Wake() : socket_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!socket_.open())
      fail(Code::kUnavailable, "no descriptor for a rank's wake-up: {}", error_text(errno));
  }
  /// From now on fd() can be read. Any thread.
  void up() noexcept {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(socket_.fd(), &one, sizeof(one));
  }
  int fd() const { return socket_.fd(); }

 private:
  Socket socket_;
};

}  // namespace hawser::comm
