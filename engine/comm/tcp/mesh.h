// Mesh: implements the functions of a HostTransport with the connections of one lane of a rank. It uses
// non-blocking sockets: every wait is a poll with a deadline that an abort interrupts.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "engine/comm/host/host_transport.h"
#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

class Mesh {
 public:
  /// Once `interrupt` becomes readable, all waits of this mesh return.
  Mesh(int32_t world_size, int interrupt) : links_(static_cast<size_t>(world_size)), interrupt_(interrupt) {}
  bool connected(int32_t rank) const { return links_[static_cast<size_t>(rank)].open(); }
  /// Adds a socket that is connected to `rank`. Call it before any call that needs the socket.
  void add(int32_t rank, Socket socket) { links_[static_cast<size_t>(rank)] = std::move(socket); }

  // Implements HostTransport::exchange_tagged. An interrupted call returns kAborted.
  int32_t exchange(int32_t peer, const Outgoing& out, const Incoming& in, double seconds);

  std::string message;  ///< why the last call failed; "" if it timed out or was interrupted

 private:
  int32_t put(int32_t peer, const Outgoing& out, int64_t* sent);
  int32_t take(int32_t peer, const Incoming& in, int64_t* received);
  int32_t broke(int32_t peer, const std::string& how);

  std::vector<Socket> links_;
  const int interrupt_;
};

}  // namespace hawser::comm
