// ZeRO as passes over the plan (Rajbhandari et al., arXiv 1910.02054): who updates a shard sends it to the
// others (stages 1 and 2), or a block's weights are gathered where they are used and dropped after (stage 3,
// FSDP: Zhao et al., arXiv 2304.11277).
#pragma once

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Stages 1 and 2: UNSHARD of each bucket of weights after its OPTIMIZER_STEPs. Does nothing at other stages.
void gather_updated_weights(plan::Plan* plan, const ShardLayout& layout, const DataParallel& strategy);

/// Stage 3: UNSHARD before the weights of a block are used, `prefetch` uses ahead, RESHARD as the strategy
/// says. For every plan: training, evaluation, generation. Does nothing at other stages.
void gather_weights_for_use(plan::Plan* plan, const ShardLayout& layout, const DataParallel& strategy);

}  // namespace hawser::parallel
