// Call: one operation in a rank's queue, and the part of it that must be equal on all members.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/comm/process_group.h"

namespace hawser::comm {

class DeviceCalls;

/// The part of a call that must be equal on all members. Plain data: point-to-point transports send it with a
/// call.
struct Signature {
  Operation operation = Operation::kBarrier;
  DType type = DType::kU8;       ///< of the elements; the wire type of reductions
  DType round_to = DType::kF32;  ///< reductions
  uint8_t tree = 0;              ///< reductions
  int32_t sum_group = 0;         ///< reductions; 0 and the group's size are the same
  int32_t root = -1;             ///< broadcast
  int32_t own_sizes = 0;         ///< 1: all_to_all_v, whose sizes differ between members
  int64_t pieces = 1;
  int64_t elements =
      0;  ///< elements of all pieces: of a shard (gather, scatter), whole (all_reduce); bytes for the rest
  uint64_t sizes_mark = 0;  ///< a hash of the pieces' sizes in order, and of their types in memory

  bool operator==(const Signature&) const = default;
};

/// For example "all_reduce of 3 arrays, 1000 elements, wire BF16, rounded to BF16".
std::string describe(const Signature& signature);

/// An operation of a group, and its sequence number there.
struct Call {
  Signature signature;
  int32_t group = 0;      ///< number of the group on this rank, in order of creation
  uint64_t sequence = 0;  ///< in the group; for send and recv, between the two members
  uint64_t ticket = 0;
  int64_t ledger_bytes = 0;
  int64_t wire_bytes = 0;  ///< wire bytes of the ledger, once it is done
  double issued = 0, begun = 0;

  std::span<const GatherPiece> gather;
  std::span<const ReducePiece> reduce;
  std::span<const AllReducePiece> all_reduce;
  Reduction reduction;
  void* out = nullptr;
  const void* in = nullptr;
  int64_t bytes = 0;  ///< all_to_all: of one member; all_reduce_i64: elements
  std::span<const int64_t> out_bytes, in_bytes;
  int32_t peer = -1;  ///< member to send to or receive from

  DeviceCalls* device = nullptr;  ///< set if the memory is the device's; this runs the call
};

/// Elements of one member's part of an array that all_reduce divides among `members`.
inline int64_t reduce_share(int64_t elements, int32_t members) { return (elements + members - 1) / members; }

/// The ledger's bytes for a call in a group of `members` (ledger.h).
int64_t ledger_bytes(const Call& call, int32_t member, int32_t members);

}  // namespace hawser::comm
