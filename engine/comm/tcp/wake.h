// Wake: wakes other threads that wait in poll, once and permanently.
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
  /// Makes fd() readable permanently. Any thread may call it.
  void up() noexcept {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(socket_.fd(), &one, sizeof(one));
  }
  int fd() const { return socket_.fd(); }

 private:
  Socket socket_;
};

}  // namespace hawser::comm
