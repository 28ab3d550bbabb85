// Data parallelism as a pass over the plan: gradients travel in buckets, in the order in which they become
// final, beside the rest of the backward (Li et al., arXiv 2006.15704). The same pass serves DDP and every
// ZeRO stage: they differ in who keeps what of a sum.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Blocks whose gradients travel together, the head's bucket first. Blocks are never cut: their gradients
/// become final together. A bucket is closed when it holds `bucket_bytes`; the first at `first_bucket_bytes`,
/// so that something is on its way early.
std::vector<std::vector<int32_t>> gradient_buckets(const std::vector<int64_t>& bytes_by_block,
                                                   int64_t bucket_bytes, int64_t first_bucket_bytes);

/// Inserts REDUCE_GRAD (and REDUCE_REPLICAS, GATHER_GRAD) into a train plan of `micro_batches`. Does nothing
/// for one rank.
void reduce_gradients(plan::Plan* plan, const ShardLayout& layout, const DataParallel& strategy,
                      int32_t micro_batches);

}  // namespace hawser::parallel
