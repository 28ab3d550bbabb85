// Server: an HTTP server with limits for requests that do not arrive. A client that connects and sends
// nothing, or sends a byte now and then, could otherwise keep a thread indefinitely.
#pragma once

#include <httplib.h>

#include <atomic>

namespace service {

class Server : public httplib::Server {
 public:
  static constexpr int kMostHalfRequests = 64;    // further connections are closed at once
  static constexpr int kSecondsForARequest = 10;  // from the first byte of a request to its last

  /// Handlers call this first. It ends the deadline of this thread's request, because handling may take
  /// longer.
  static void request_has_arrived();

 private:
  /// Runs on a thread of the pool for each connection, which carries one request.
  bool process_and_close_socket(socket_t socket) override;

  std::atomic<int> half_requests_ = 0;
};

}  // namespace service
