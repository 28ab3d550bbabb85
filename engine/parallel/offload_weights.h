// Weight offload: a pass over plans (ZeRO-Infinity: Rajbhandari et al., arXiv:2104.07857; FSDP's
// cpu_offload). The weights that modules read are in another space; at stage 3, this rank's shards of them. A
// block's weights are fetched into the arena before consecutive uses and dropped after them; where a use
// changes them, they go back. The pass copies bytes, so no result changes.
#pragma once

#include <cstdint>

#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Gives the persistent slots of weights a place in the space `to`, and inserts FETCH before their uses and
/// OFFLOAD after those that write them. FETCH comes `prefetch` module calls or updates ahead; weights that
/// are being offloaded keep their memory for as many. For every plan of an engine, after all other passes.
void offload_weights(plan::Plan* plan, plan::Space to, int64_t prefetch);

}  // namespace hawser::parallel
