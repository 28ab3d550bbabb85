// Server: an HTTP server with deadlines for requests to arrive. Without them, a client that sends nothing, or
// only a byte now and then, could keep a thread indefinitely.
#pragma once

#include <httplib.h>

#include <atomic>

namespace service {

class Server : public httplib::Server {
 public:
  static constexpr int kMostHalfRequests = 64;    // further connections are closed at once
  static constexpr int kSecondsForARequest = 10;  // from the first byte of a request to its last

  /// Cancels the deadline of this thread's request. Handlers call this first, because handling may take
  /// longer than the deadline.
  static void request_has_arrived();

 private:
  /// Serves a connection, which carries one request, on a thread of the pool.
  bool process_and_close_socket(socket_t socket) override;

  std::atomic<int> half_requests_ = 0;
};

}  // namespace service
