// Traffic: the bytes that one rank sends for the blocks of a bucket, by the ring forms of the operations
// (comm/ledger.h), padding included. Each transfer is either of divided experts or of all other groups.
// Records of integers count with all their bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/call.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"

namespace hawser::parallel {

/// REDUCE_TP and REDUCE_KV all-reduce each included group, with addends and sums in their stored type.
inline int64_t model_sum_bytes(const ShardLayout& layout, const std::vector<int32_t>& blocks,
                               const ModelSum& sum) {
  int64_t elements = 0;
  for (const int32_t b : blocks)
    for (const int32_t g : layout.groups_of(b))
      if (ShardLayout::takes(sum, layout.group(g)))
        elements += (layout.group(g).elements + sum.ranks - 1) / sum.ranks;
  return 2 * (sum.ranks - 1) * elements * dtype_bytes(layout.options().state);
}

/// Returns the sum of bytes_of(group) over the trainable groups of a transfer.
template <typename BytesOf>
int64_t trainable_bytes(const ShardLayout& layout, const std::vector<int32_t>& blocks, bool experts,
                        BytesOf bytes_of) {
  int64_t bytes = 0;
  for (const int32_t b : blocks)
    for (const int32_t g : layout.groups_of(b))
      if (layout.group(g).trainable && layout.group(g).experts == experts) bytes += bytes_of(layout.group(g));
  return bytes;
}

/// REDUCE_GRAD sends (N - 1) shards of every trainable group, in the type in which its addends are sent.
inline int64_t reduce_scatter_bytes(const ShardLayout& layout, const std::vector<int32_t>& blocks,
                                    const DataParallelStrategy& strategy, bool experts) {
  return (layout.parts(experts) - 1) * trainable_bytes(layout, blocks, experts, [&](const GroupLayout& g) {
           return dtype_bytes(strategy.wire_of(g.products), g.shard);
         });
}

/// GATHER_GRAD sends (N - 1) shards of sums, in their stored type.
inline int64_t gradient_gather_bytes(const ShardLayout& layout, const std::vector<int32_t>& blocks,
                                     bool experts) {
  return (layout.parts(experts) - 1) * trainable_bytes(layout, blocks, experts, [&](const GroupLayout& g) {
           return dtype_bytes(layout.options().state, g.shard);
         });
}

/// REDUCE_REPLICAS all-reduces the shard among R replicas: it sends (R - 1) pieces of ceil(shard / R) as f32
/// addends or in whole records, and the same number as sums in the wire type.
inline int64_t replica_bytes(const ShardLayout& layout, const std::vector<int32_t>& blocks,
                             const DataParallelStrategy& strategy, bool experts) {
  const auto replicas = static_cast<int32_t>(strategy.replicas);
  return (replicas - 1) * trainable_bytes(layout, blocks, experts, [&](const GroupLayout& g) {
           const DType addends = strategy.replica_wire_of(g.products);
           const int64_t share = comm::reduce_share(g.shard, replicas, addends);
           return dtype_bytes(addends, share) + dtype_bytes(strategy.wire, share);
         });
}

/// UNSHARD sends (parts - 1) shards of every group (only trainable groups if `updated`), in the type of its
/// weights.
inline int64_t unshard_bytes(const ShardLayout& layout, const std::vector<int32_t>& blocks, int64_t parts,
                             bool updated, bool experts) {
  int64_t bytes = 0;
  for (const int32_t b : blocks) {
    for (const int32_t g : layout.groups_of(b)) {
      const GroupLayout& group = layout.group(g);
      if (group.experts != experts || (updated && !group.trainable && !group.copy)) continue;
      bytes += dtype_bytes(group.type, mesh::shard_elements(group.elements, parts));
    }
  }
  return (parts - 1) * bytes;
}

/// Exact sums of `count` numbers over `ranks` send 2 (N - 1) pieces of ceil(count / N) numbers of 8 bytes.
inline int64_t agreement_bytes(int64_t count, int64_t ranks) {
  return 2 * (ranks - 1) * ((count + ranks - 1) / ranks) * 8;
}

}  // namespace hawser::parallel
