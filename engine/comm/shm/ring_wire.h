// RingWire: a connection between two processes of one host through shared memory, with a ring in each
// direction. The Unix socket through which they connected stays open: a byte sent on it wakes the other side
// if it sleeps, and its closing shows that the other process has ended.
#pragma once

#include "engine/comm/shm/shared_memory.h"
#include "engine/comm/shm/shared_ring.h"
#include "engine/comm/tcp/wire.h"

namespace hawser::comm {

/// Returns the bytes that the two processes of a connection share.
int64_t shared_bytes(int32_t world_size);

class RingWire final : public Wire {
 public:
  /// `memory` has shared_bytes(world_size). The lower rank writes the first ring.
  RingWire(Socket socket, SharedMemory memory, int32_t world_size, bool is_lower);
  int64_t put(std::span<const iovec> parts, std::string* why) override;
  int64_t take(void* to, int64_t bytes, std::string* why) override;
  pollfd awaited(bool to_put, bool to_take) override;
  void woke() override;
  bool is_shared() const override { return true; }

 private:
  int64_t moved(const SharedRing::Moved& moved, bool lost, std::string* why);

  Socket socket_;
  SharedMemory memory_;
  SharedRing out_, in_;
  int64_t left_to_put_ = 0;  ///< bytes that the last put could not move
  bool closed_ = false;      ///< the other side has closed the socket
};

}  // namespace hawser::comm
