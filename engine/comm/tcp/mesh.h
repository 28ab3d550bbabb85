// Mesh: one rank's connections to all others as the functions of a HostTransport. Plain sockets that never
// block: every wait is a poll with a deadline that an abort interrupts.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

class Mesh {
 public:
  /// links[r] leads to rank r. Once `interrupt` can be read, whatever waits here returns.
  Mesh(std::vector<Socket> links, int interrupt) : links_(std::move(links)), interrupt_(interrupt) {}

  // As in HostTransport. An interrupted call returns kAborted.
  int32_t send(int32_t to, const void* data, int64_t bytes, double seconds);
  int32_t recv(int32_t from, void* data, int64_t bytes, double seconds);
  int32_t exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                   double seconds);

  std::string message;  ///< why the last call failed; "" where it ran out of time or was interrupted

 private:
  int32_t broke(int32_t peer, const std::string& how);

  std::vector<Socket> links_;
  const int interrupt_;
};

}  // namespace hawser::comm
