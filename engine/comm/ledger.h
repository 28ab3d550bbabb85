// The ledger: what was sent, exactly, in two columns. Bytes are the payload: those that one member sends
// under the ring forms of each operation, whatever the transport really does: reduce_scatter, all_gather and
// all_to_all (N-1) * shard bytes, all_reduce twice that of its padded shard, broadcast its bytes once from
// the root, send its bytes, each with the operation's own wire type (of all_reduce: addends in `wire`,
// finished sums in `round_to`; its shard is ceil(elements / N)). Wire bytes are those that a process gave its
// sockets, or the host's functions, for the call: with headers and padding, and by the ways that the
// transport really takes. Between threads there are none, nor does it know those that devices send each
// other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hawser::comm {

enum class Operation : uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllReduceI64,
  kAllToAll,
  kBroadcast,
  kSend,
  kRecv,
  kBarrier,
  kCount
};
const char* operation_name(Operation operation);

/// Totals of one group on one member.
struct Traffic {
  struct Entry {
    int64_t calls = 0, bytes = 0, wire_bytes = 0;
  };
  std::array<Entry, static_cast<size_t>(Operation::kCount)> by_operation{};
};

enum class CallState : uint8_t {
  kQueued,   ///< issued; an earlier call of its lane still runs
  kRunning,  ///< entered: from here on its rank waits for the other members
  kFinished,
  kFailed,
};
const char* state_name(CallState state);

/// One call of one rank. Seconds of the steady clock, 0 for what has not happened.
struct Record {
  Operation operation = Operation::kBarrier;
  CallState state = CallState::kQueued;
  int32_t group = 0;      ///< in the order in which the rank made its groups; it knows the lane
  uint64_t ticket = 0;    ///< in the lane
  uint64_t sequence = 0;  ///< in the group, the same on all members; of send and recv, between the two
  int64_t bytes = 0;      ///< as the ledger counts them
  double issued = 0, begun = 0, ended = 0;
};

}  // namespace hawser::comm
