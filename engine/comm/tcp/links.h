// Links: connects ranks after the rendezvous, with one TCP connection for each pair, opened by the higher
// rank and authenticated in a handshake. Each rank listens on its own address only during this time.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/identity/handshake.h"

namespace hawser::comm {

class Links {
 public:
  /// Listens on `host` at a free port.
  Links(const Membership& self, const std::string& host);
  /// Returns the address at which other ranks reach this rank: "host:port".
  const std::string& address() const { return address_; }
  /// Connects to `ranks` (ascending, without this one); addresses[i] belongs to ranks[i]. Returns sockets in
  /// the order of `ranks`. Throws kTimeout with a rank that did not arrive in time, kUnavailable once
  /// `interrupt` becomes readable, and the errors of introduce.
  std::vector<Socket> connect(const std::vector<int32_t>& ranks, const std::vector<std::string>& addresses,
                              double deadline, int interrupt);

 private:
  Socket connect_to(int32_t rank, const std::string& address, double deadline, int interrupt) const;
  void accept_higher(const std::vector<int32_t>& ranks, std::vector<Socket>& links, double deadline,
                     int interrupt);

  const Membership& self_;
  Socket listener_;
  std::string address_;
};

}  // namespace hawser::comm
