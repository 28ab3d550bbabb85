// ZeRO: passes over the plan (Rajbhandari et al., arXiv:1910.02054). At stages 1 and 2 the rank that updates
// a shard sends it to the others. At stage 3 a block's weights are gathered before use and dropped afterwards
// (FSDP: Zhao et al., arXiv:2304.11277).
#pragma once

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Stages 1 and 2: inserts an UNSHARD for each bucket of weights after its OPTIMIZER_STEPs. Does nothing at
/// other stages.
void gather_updated_weights(plan::Plan* plan, const ShardLayout& layout,
                            const DataParallelStrategy& strategy);

/// Stages 1 and 2: appends an UNSHARD for each block to a plan that publishes weights, of all groups, frozen
/// ones included. Does nothing at other stages.
void gather_all_weights(plan::Plan* plan, const ShardLayout& layout);

/// Stage 3: inserts UNSHARD `prefetch` uses before the weights of a block are used, and RESHARD as the
/// strategy specifies. Handles training, evaluation and generation plans. Does nothing at other stages.
void gather_weights_for_use(plan::Plan* plan, const ShardLayout& layout,
                            const DataParallelStrategy& strategy);

}  // namespace hawser::parallel
