// How ranks that have met connect with each other: one TCP connection for each pair, begun by the higher rank
// and shown to be the job's in a handshake. Each rank listens on its own address while this lasts, and no
// longer.
#pragma once

#include <string>
#include <vector>

#include "engine/comm/identity/handshake.h"

namespace hawser::comm {

class Links {
 public:
  /// Listens on `host` at a free port.
  Links(const Membership& self, const std::string& host);
  /// Where the others reach this rank: "host:port".
  const std::string& address() const { return address_; }
  /// Connects with `ranks` (ascending, not the own one); addresses[i] is that of ranks[i]. The sockets by
  /// place in `ranks`. Throws kTimeout naming a rank that did not come in time, kUnavailable once `interrupt` can be read, and what
  /// introduce throws.
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
