#include "engine/comm/call.h"

#include <numeric>

namespace hawser::comm {

std::string describe(const Signature& s) {
  const char* name = operation_name(s.operation);
  switch (s.operation) {
    case Operation::kAllGather:
      return fmt::format("{} of {} arrays, {} elements of {} per member", name, s.pieces, s.elements,
                         dtype_name(s.type));
    case Operation::kReduceScatter:
    case Operation::kAllReduce:
      return fmt::format("{} of {} arrays, {} elements{}, wire {}, rounded to {}, {}", name, s.pieces,
                         s.elements, s.operation == Operation::kReduceScatter ? " per member" : "",
                         dtype_name(s.type), dtype_name(s.round_to),
                         s.tree != 0 ? "by tree" : fmt::format("sum_group {}", s.sum_group));
    case Operation::kAllReduceI64:
      return fmt::format("{} of {} numbers", name, s.elements);
    case Operation::kAllToAll:
      return s.own_sizes != 0 ? "all_to_all_v" : fmt::format("{} of {} bytes per pair", name, s.elements);
    case Operation::kBroadcast:
      return fmt::format("{} of {} bytes from member {}", name, s.elements, s.root);
    case Operation::kSend:
    case Operation::kRecv:
      return fmt::format("{} of {} bytes", name, s.elements);
    case Operation::kBarrier:
    case Operation::kCount:
      break;
  }
  return name;
}

int64_t ledger_bytes(const Call& call, int32_t member, int32_t members) {
  const Signature& s = call.signature;
  const int64_t others = members - 1;
  switch (s.operation) {
    case Operation::kAllGather:
      return others * s.elements * dtype_bytes(s.type);
    case Operation::kReduceScatter: {
      int64_t bytes = 0;
      for (const ReducePiece& piece : call.reduce) bytes += dtype_bytes(s.type, piece.shard_elements);
      return others * bytes;
    }
    case Operation::kAllReduce: {
      int64_t bytes = 0;
      for (const AllReducePiece& piece : call.all_reduce) {
        const int64_t share = reduce_share(piece.elements, members, s.type);
        bytes += dtype_bytes(s.type, share) + dtype_bytes(s.round_to, share);
      }
      return others * bytes;
    }
    case Operation::kAllReduceI64:
      return 2 * others * reduce_share(s.elements, members) * 8;
    case Operation::kAllToAll:
      if (s.own_sizes == 0) return others * s.elements;
      return std::accumulate(call.in_bytes.begin(), call.in_bytes.end(), int64_t{0}) - call.in_bytes[member];
    case Operation::kBroadcast:
      return members > 1 && s.root == member ? s.elements : 0;
    case Operation::kSend:
      return s.elements;
    case Operation::kRecv:
    case Operation::kBarrier:
    case Operation::kCount:
      break;
  }
  return 0;
}

}  // namespace hawser::comm
