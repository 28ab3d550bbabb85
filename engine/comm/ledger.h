// The ledger: what was sent, exactly. Bytes are those that one member sends under the ring forms of each
// operation, whatever the transport really does: reduce_scatter, all_gather and all_to_all (N-1) * shard
// bytes, all_reduce twice that of its padded shard, broadcast its bytes once from the root, send its bytes,
// each with the operation's own wire type (of all_reduce: addends in `wire`, finished sums in `round_to`; its
// shard is ceil(elements / N)).
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
    int64_t calls = 0, bytes = 0;
  };
  std::array<Entry, static_cast<size_t>(Operation::kCount)> by_operation{};
};

/// One finished call, for timelines. Seconds of the steady clock.
struct Record {
  Operation operation = Operation::kBarrier;
  int32_t group = 0;  ///< in the order in which the rank made its groups
  uint64_t ticket = 0;
  int64_t bytes = 0;
  double issued = 0, begun = 0, ended = 0;
};

}  // namespace hawser::comm
