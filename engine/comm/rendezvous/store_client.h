// StoreClient: one rank's connection to the rendezvous store. The connection represents the rank: if it
// breaks, the other ranks are notified. Only one thread at a time may use it.
#pragma once

#include <string>

#include "engine/base/error.h"
#include "engine/comm/identity/handshake.h"
#include "engine/comm/rendezvous/socket.h"
#include "engine/comm/rendezvous/store_protocol.h"

namespace hawser::comm {

class StoreClient {
 public:
  /// Connects and proves that it belongs to the job, retrying until the deadline. Throws kTimeout with rank
  /// 0's address if nobody listens there, and the errors of introduce. The client keeps no reference to
  /// `self`. Later each call throws kUnavailable if rank 0 is gone or sends no heartbeat for
  /// `silence_seconds` (at least 2 s, because rank 0 uses its own setting), whatever the call's timeout.
  StoreClient(const HostPort& address, const Membership& self, double timeout_seconds,
              double silence_seconds);

  /// Returns rank 0's silence_seconds when all ranks have arrived; throws kTimeout with those that have not.
  /// `of_seconds` is the total wait for the text, if part of it is over. Rank 0 may end at once after this,
  /// so a rank makes no other request before it watches.
  double wait_for_all(double timeout_seconds, double of_seconds);
  double wait_for_all(double timeout_seconds) { return wait_for_all(timeout_seconds, timeout_seconds); }
  void set(const std::string& key, std::string_view value);
  /// Waits until the key is set. Throws kTimeout, the error that broke the job meanwhile, or kCancelled if
  /// rank 0 ends.
  std::string get(const std::string& key, double timeout_seconds);
  /// Returns this machine's address on the connection to the store.
  std::string own_address() const { return local_address(socket_); }
  /// Switches to watching for the rest of the job's life (rank_watch.h) and returns the connection. No other
  /// call may follow.
  Socket watch() &&;

 private:
  std::string ask(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds);
  void send(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds);
  std::string read_text(int32_t* code);
  [[noreturn]] void fail_without_zero(bool silent) const;

  const HostPort address_;
  const int32_t rank_, world_size_;
  const double silence_seconds_;
  Socket socket_;
};

/// Encodes a request.
std::string store_request(StoreOp op, std::string_view key, std::string_view value, double timeout_seconds);

}  // namespace hawser::comm
