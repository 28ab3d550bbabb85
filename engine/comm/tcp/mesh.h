// Mesh: implements the functions of a HostTransport with the connections of one lane of a rank. They never
// block: every wait is a poll with a deadline that an abort interrupts.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/host/host_transport.h"
#include "engine/comm/tcp/wire.h"

namespace hawser::comm {

class Mesh {
 public:
  /// Once `interrupt` becomes readable, all waits of this mesh return.
  Mesh(int32_t world_size, int interrupt) : wires_(static_cast<size_t>(world_size)), interrupt_(interrupt) {}
  bool connected(int32_t rank) const { return wires_[static_cast<size_t>(rank)] != nullptr; }
  /// Adds the connection to `rank`. Call it before any call that needs it.
  void add(int32_t rank, std::unique_ptr<Wire> wire) { wires_[static_cast<size_t>(rank)] = std::move(wire); }

  // Implements HostTransport::exchange_tagged. An interrupted call returns kAborted.
  int32_t exchange(int32_t peer, const Outgoing& out, const Incoming& in, double seconds);

  std::string message;  ///< why the last call failed; "" if it timed out or was interrupted

 private:
  int32_t put(Wire& wire, const Outgoing& out, int64_t* sent);
  int32_t take(Wire& wire, const Incoming& in, int64_t* received);

  std::vector<std::unique_ptr<Wire>> wires_;  ///< by rank
  const int interrupt_;
};

}  // namespace hawser::comm
