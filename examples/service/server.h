// The HTTP server of the service, with limits for requests that do not arrive: a client that connects and sends nothing,
// or a byte now and then, would keep a thread for as long as it likes.
#pragma once

#include <httplib.h>

#include <atomic>

namespace service {

class Server : public httplib::Server {
 public:
  static constexpr int kMostHalfRequests = 64;    // further connections are closed at once
  static constexpr int kSecondsForARequest = 10;  // from its first byte to its last, however slowly they come

  /// Handlers call this first: the request of this thread has arrived, and what follows may take its time.
  static void request_has_arrived();

 private:
  /// Called on a thread of the pool for each connection, which carries one request.
  bool process_and_close_socket(socket_t socket) override;

  std::atomic<int> half_requests_ = 0;
};

}  // namespace service
