// StoreClient: one rank's connection to the rendezvous store. Thread-safe; one request at a time.
#pragma once

#include <mutex>
#include <string>

#include "engine/base/error.h"
#include "engine/comm/rendezvous/socket.h"
#include "engine/comm/rendezvous/store_protocol.h"

namespace hawser::comm {

class StoreClient {
 public:
  /// Connects, trying again until the deadline. Throws kTimeout naming rank 0 if nobody listens there.
  StoreClient(const HostPort& address, int32_t rank, int32_t world_size, double timeout_seconds);

  /// From here on the connection stands for the rank: if it breaks, the others are told. Throws
  /// kInvalidArgument if the rank is taken or the world sizes differ.
  void say_hello();
  /// Returns when all ranks have said hello; throws kTimeout naming those that have not.
  void wait_for_all(double timeout_seconds);
  void set(const std::string& key, std::string_view value);
  /// What the key holds after setting it unless it was set.
  std::string set_first(const std::string& key, std::string_view value);
  /// Waits until the key is set; throws kTimeout, or kCancelled when rank 0 ends in peace.
  std::string get(const std::string& key, double timeout_seconds);
  int64_t add(const std::string& key, int64_t more);
  /// Leaves in peace.
  void bye() noexcept;
  /// Makes a running request fail with kUnavailable.
  void interrupt() { socket_.shut_down(); }

 private:
  std::string ask(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds);
  void send(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds,
            double deadline);

  const HostPort address_;
  const int32_t rank_, world_size_;
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace hawser::comm
