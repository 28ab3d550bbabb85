// DataParallel: how data-parallel ranks share one model, with every choice resolved. The input of the passes
// in this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/parallel/parallel_config.h"

namespace hawser::parallel {

struct DataParallel {
  int64_t stage = 0;             ///< 0: DDP; ZeRO 1, 2, 3
  int64_t shards = 1;            ///< ranks that share one copy of sharded state; stage 0: all of them
  int64_t replicas = 1;          ///< copies of that state (HSDP); stage 0: 1
  bool per_micro_batch = false;  ///< reduce the gradients of each micro-batch separately
  bool tree = false;             ///< sum micro-batches and ranks by one binary tree (promise L3)
  ReshardAfterForward reshard = ReshardAfterForward::kFull;
  int64_t reshard_group = 0;  ///< ranks of the smaller group
  int64_t prefetch = 1;       ///< blocks gathered ahead
  DType wire = DType::kF32;   ///< data type of gradients on the wire
  int64_t sum_group = 0;      ///< ranks summed together first if there is one copy; 0: all, or a tree
  int64_t bucket_bytes = 25 << 20, first_bucket_bytes = 1 << 20;
  int64_t expert_shards = 1;     ///< ranks that share the state of the same experts, where ranks divide them
  int64_t expert_sum_group = 0;  ///< sum_group of their gradients
  std::vector<int64_t> stage_of =
      {};               ///< stage of the pipeline that has each block; empty: there is only one
  bool halves = false;  ///< backwards are in two halves, so that those of several micro-batches are under way

  int64_t ranks() const { return shards * replicas; }
  int64_t shards_of(bool experts) const { return experts ? expert_shards : shards; }
  bool many() const { return ranks() * expert_shards > 1; }
  /// How many ranks' gradients are summed first, in ascending order, before those sums are added. Strategies
  /// with the same ranks, wire type and reduction give the same bits if this is equal. Does not apply to a
  /// tree.
  int64_t summed_first() const {
    if (replicas > 1) return shards;
    return sum_group > 0 ? sum_group : ranks();
  }
  /// Whole gradients exist only until they are reduced.
  bool gradient_buckets(int64_t micro_batches) const {
    if (halves && reduces_each(micro_batches)) return true;
    return many() && stage >= 2 && (per_micro_batch || micro_batches == 1);
  }
  /// The gradients of every micro-batch are reduced and added to the shard of its owner.
  bool reduces_each(int64_t micro_batches) const { return many() && per_micro_batch && micro_batches > 1; }
};

}  // namespace hawser::parallel
