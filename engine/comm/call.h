// Call: one operation in a rank's queue. Its Signature must be equal on all members.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/comm/process_group.h"

namespace hawser::comm {

class DeviceCalls;

/// The part of a call that must be equal on all members. It is plain data, because point-to-point transports
/// send it with a call.
struct Signature {
  Operation operation = Operation::kBarrier;
  DType type = DType::kU8;       ///< type of the elements; for reductions the wire type
  DType round_to = DType::kF32;  ///< used by reductions
  uint8_t tree = 0;              ///< used by reductions
  int32_t sum_group = 0;         ///< used by reductions; never 0 (QueuedGroup::issue)
  int32_t root = -1;             ///< used by broadcast
  int32_t own_sizes = 0;         ///< 1 for all_to_all_v, whose sizes differ between members
  int64_t pieces = 1;
  int64_t elements =
      0;  ///< elements of all pieces: of a shard (gather, scatter), full (all_reduce); bytes for other
          ///< operations
  uint64_t sizes_mark = 0;  ///< hash of the pieces' sizes in order, and of their types in memory

  bool operator==(const Signature&) const = default;
};

/// Returns a text such as "all_reduce of 3 arrays, 1000 elements, wire BF16, rounded to BF16".
std::string describe(const Signature& signature);

/// An operation of a group, with its sequence number in the group.
struct Call {
  Signature signature;
  int32_t group = 0;      ///< number of the group on this rank, in order of creation
  uint64_t sequence = 0;  ///< within the group; for send and recv, between the two members
  uint64_t ticket = 0;
  int64_t ledger_bytes = 0;
  int64_t wire_bytes = 0;     ///< wire bytes of the ledger, set when the call is done
  int64_t charged_bytes = 0;  ///< charged bytes of the ledger, set when the call is done
  double issued = 0, begun = 0;

  std::span<const GatherPiece> gather;
  std::span<const ReducePiece> reduce;
  std::span<const AllReducePiece> all_reduce;
  Reduction reduction;
  void* out = nullptr;
  const void* in = nullptr;
  int64_t bytes = 0;  ///< all_to_all: bytes for one member; all_reduce_i64: elements
  std::span<const int64_t> out_bytes, in_bytes;
  int32_t peer = -1;  ///< the other member of a send or recv

  DeviceCalls* device = nullptr;  ///< runs the call, if its memory is the device's
};

/// Returns the elements of one member's part of an array that all_reduce divides among `members`: in whole
/// records, if addends are sent in records.
inline int64_t reduce_share(int64_t elements, int32_t members, DType wire = DType::kF32) {
  const int64_t share = (elements + members - 1) / members, unit = dtype_unit(wire).numbers;
  return (share + unit - 1) / unit * unit;
}

/// Returns the ledger's bytes for a call in a group of `members` (ledger.h).
int64_t ledger_bytes(const Call& call, int32_t member, int32_t members);

}  // namespace hawser::comm
