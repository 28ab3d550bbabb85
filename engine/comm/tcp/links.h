// Links: connects ranks after the rendezvous, with one connection for each pair, opened by the higher rank
// and authenticated in a handshake. Each rank listens only during this time, at its own address, and
// at a local socket for ranks of its host. Ranks that have connected through a local socket share memory
// (shm/); if the system refuses the memory, the local socket carries their bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/comm/identity/handshake.h"
#include "engine/comm/tcp/wire.h"

namespace hawser::comm {

class Links {
 public:
  /// Listens on `host` at a free port, and if `shares_memory` at a local socket.
  Links(const Membership& self, const std::string& host, bool shares_memory);
  /// Returns where other ranks reach this rank: "host:port". If there is a local socket, the host's identity
  /// and the name of the socket follow, each after a space.
  const std::string& address() const { return address_; }
  /// Connects to `ranks` (ascending, without this one); addresses[i] belongs to ranks[i]. Returns connections
  /// in the order of `ranks`. Throws kTimeout with a rank that did not arrive in time, kUnavailable once
  /// `interrupt` becomes readable, and the errors of introduce and SharedMemory::receive.
  std::vector<std::unique_ptr<Wire>> connect(const std::vector<int32_t>& ranks,
                                             const std::vector<std::string>& addresses, double deadline,
                                             int interrupt);
  /// Returns the first reason why a rank of this host does not share memory with this rank; "": none.
  const std::string& not_shared() const { return not_shared_; }

 private:
  using Wires = std::vector<std::unique_ptr<Wire>>;

  std::unique_ptr<Wire> connect_to(int32_t rank, const std::string& address, double deadline, int interrupt);
  std::unique_ptr<Wire> connect_locally(int32_t rank, const std::string& name, double deadline,
                                        int interrupt);
  std::unique_ptr<Wire> accept_locally(Socket socket);
  void note_not_shared(const std::string& why);
  void accept_higher(const std::vector<int32_t>& ranks, Wires& wires, double deadline, int interrupt);

  const Membership& self_;
  Socket listener_, local_listener_;
  std::string own_address_;  ///< "host:port"
  std::string host_;         ///< identity of this host; "": memory is not shared
  std::string address_;
  std::string not_shared_;
};

}  // namespace hawser::comm
