// DataParallel: how data-parallel ranks share one model, with every choice resolved. It is the input of the
// passes in this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/parallel/parallel_config.h"

namespace hawser::parallel {

struct DataParallelStrategy {
  int64_t stage = 0;             ///< 0: DDP; ZeRO 1, 2, 3
  int64_t shards = 1;            ///< ranks that share one replica of sharded state; stage 0: all of them
  int64_t replicas = 1;          ///< replicas of that state (HSDP); stage 0: 1
  bool per_micro_batch = false;  ///< reduce the gradients of each micro-batch separately
  bool tree = false;             ///< sum micro-batches and ranks by one binary tree (promise L3)
  ReshardAfterForward reshard = ReshardAfterForward::kFull;
  int64_t reshard_group = 0;  ///< ranks of the secondary shard group
  int64_t prefetch = 1;       ///< blocks gathered ahead
  DType wire = DType::kF32;   ///< data type of gradients on the wire
  /// Records of integers in which gradients of products' weights are sent instead; kF32: none.
  DType records = DType::kF32;
  int64_t sum_group = 0;  ///< ranks summed together first if there is one replica; 0: all, or a tree
  int64_t bucket_bytes = 25 << 20, first_bucket_bytes = 1 << 20;
  int64_t expert_shards = 1;     ///< ranks that share the state of the same experts, if mesh.ep divides them
  int64_t expert_sum_group = 0;  ///< sum_group for gradients of experts
  std::vector<int64_t> stage_of = {};  ///< pipeline stage that has each block; empty: there is only one

  /// Returns the type in which the addends of a gradient are sent. `products`: products read the weight.
  DType wire_of(bool products) const { return products && is_block_type(records) ? records : wire; }
  /// Returns the type in which a shard's sums are sent, to be added to those of its replicas.
  DType replica_wire_of(bool products) const { return products ? records : DType::kF32; }
  int64_t ranks() const { return shards * replicas; }
  int64_t shards_of(bool experts) const { return experts ? expert_shards : shards; }
  bool many() const { return ranks() * expert_shards > 1; }
  /// Returns how many ranks' gradients are summed first, in ascending order, before those sums are added.
  /// Strategies with the same ranks, wire type and reduction give the same bits if this value is equal. Does
  /// not apply to a tree.
  int64_t summed_first() const {
    if (replicas > 1) return shards;
    return sum_group > 0 ? sum_group : ranks();
  }
  /// True if full gradients exist only until they are reduced. `halves`: backwards are split into input and
  /// weight passes, so that several are in progress (nn::BackwardForm).
  bool gradient_buckets(int64_t micro_batches, bool halves) const {
    if (halves && reduces_each(micro_batches)) return true;
    return many() && stage >= 2 && (per_micro_batch || micro_batches == 1);
  }
  /// True if the gradients of every micro-batch are reduced and added to their owner's shard.
  bool reduces_each(int64_t micro_batches) const { return many() && per_micro_batch && micro_batches > 1; }
};

}  // namespace hawser::parallel
