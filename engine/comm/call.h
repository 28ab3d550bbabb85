// Call: one operation in a rank's queue, and the part of it that all members must agree about.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/comm/process_group.h"

namespace hawser::comm {

class DeviceCollectives;

/// What must be equal on all members of a call. Plain data: point-to-point transports send it ahead of a
/// call.
struct Signature {
  Operation operation = Operation::kBarrier;
  DType type = DType::kU8;       ///< of the elements; the wire type of reductions
  DType round_to = DType::kF32;  ///< reductions
  uint8_t tree = 0;              ///< reductions
  int32_t sum_group = 0;         ///< reductions; 0 and the group's size are the same
  int32_t root = -1;             ///< broadcast
  int32_t own_sizes = 0;         ///< 1: all_to_all_v, whose sizes differ by member
  int64_t pieces = 1;
  int64_t elements =
      0;  ///< of all pieces: of a shard (gather, scatter), whole (all_reduce), bytes (the rest)
  uint64_t sizes_mark = 0;  ///< a hash of the pieces' sizes in order, and of their types in memory

  bool operator==(const Signature&) const = default;
};

/// "all_reduce of 3 arrays, 1000 elements, wire BF16, rounded to BF16".
std::string describe(const Signature& signature);

/// Which operation of which group, and the sequence number that its members count it by.
struct Call {
  Signature signature;
  int32_t group = 0;      ///< in the order in which this rank made its groups
  uint64_t sequence = 0;  ///< in the group; of send and recv, between the two members
  uint64_t ticket = 0;
  int64_t ledger_bytes = 0;
  int64_t wire_bytes = 0;  ///< of the ledger, once it is done
  double issued = 0, begun = 0;

  std::span<const GatherPiece> gather;
  std::span<const ReducePiece> reduce;
  std::span<const AllReducePiece> all_reduce;
  Reduction reduction;
  void* out = nullptr;
  const void* in = nullptr;
  int64_t bytes = 0;  ///< of all_to_all one member's; elements of all_reduce_i64
  std::span<const int64_t> out_bytes, in_bytes;
  int32_t peer = -1;  ///< member that is sent to or received from

  DeviceCollectives* device = nullptr;  ///< memory is the device's, and this carries the call out
  bool agrees_only = false;             ///< members meet and compare signatures; no memory is touched
};

/// Elements of one member's part of an array that all_reduce cuts among `members`.
inline int64_t reduce_share(int64_t elements, int32_t members) { return (elements + members - 1) / members; }

/// What the ledger says of a call in a group of `members` (ledger.h).
int64_t ledger_bytes(const Call& call, int32_t member, int32_t members);

}  // namespace hawser::comm
