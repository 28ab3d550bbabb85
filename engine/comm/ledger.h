// Ledger: counts exactly what was sent, in two columns. *Bytes* are the payload: what one member sends by the
// ring form of the operation, whatever the transport really does. That is (N-1) * shard bytes for
// reduce_scatter, all_gather and all_to_all; twice that for the padded shard for all_reduce; the array's
// bytes once, from the root, for broadcast; and the message's bytes for send, each in the operation's wire
// type (all_reduce: addends in `wire`, finished sums in `round_to`; its shard is ceil(elements / N), in whole
// records if `wire` has records). *Wire
// bytes* are the bytes that a process passed to its sockets, or to the host program's functions, for the
// call, with headers and padding. Between threads they are 0, and between devices they are not counted.
//
// *Charged bytes* are the bytes by which CommOptions::bandwidth_limit slowed a call down: the payload of a
// collective or of a received message, or 0 without a limit.
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

/// Totals of one member in one group.
struct Traffic {
  struct Entry {
    int64_t calls = 0, bytes = 0, wire_bytes = 0, charged_bytes = 0;
  };
  std::array<Entry, static_cast<size_t>(Operation::kCount)> by_operation{};
};

enum class CallState : uint8_t {
  kQueued,   ///< issued; an earlier call of its lane still runs
  kRunning,  ///< entered: its rank now waits for the other members
  kFinished,
  kFailed,
};
const char* state_name(CallState state);

/// One call of one rank. Times are in seconds of the steady clock, 0 for an event that has not happened.
struct Record {
  Operation operation = Operation::kBarrier;
  CallState state = CallState::kQueued;
  int32_t group = 0;      ///< number of the group in order of creation; the group determines the lane
  uint64_t ticket = 0;    ///< ticket in the lane
  uint64_t sequence = 0;  ///< in the group, the same on all members; for send and recv, between the two
  int64_t bytes = 0;      ///< as counted by the ledger
  double issued = 0, begun = 0, ended = 0;
};

}  // namespace hawser::comm
