// Data parallelism: a pass over the plan that reduces gradients in buckets, in the order in which they become
// final, while the rest of the backward runs (Li et al., arXiv:2006.15704). The same pass serves DDP and
// every ZeRO stage, which differ in which rank stores which part of a sum.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Groups blocks whose gradients are reduced together, the head's bucket first. Blocks are never split,
/// because their gradients become final together. A bucket is closed when it holds `bucket_bytes`, the first
/// one when it holds `first_bucket_bytes`, so that communication starts early.
std::vector<std::vector<int32_t>> gradient_buckets(const std::vector<int64_t>& bytes_by_block,
                                                   int64_t bucket_bytes, int64_t first_bucket_bytes);

/// Inserts REDUCE_GRAD and, if needed, REDUCE_REPLICAS and GATHER_GRAD into a train plan. All steps of a
/// batch ramp reduce gradients in the way of the largest step, which has `most_micro_batches`. Before these
/// instructions, REDUCE_TP and REDUCE_KV sum the gradients that tensor-parallel ranks compute in part, with
/// or without data-parallel ranks. Does nothing for one rank.
void reduce_gradients(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& strategy,
                      int64_t most_micro_batches);

}  // namespace hawser::parallel
