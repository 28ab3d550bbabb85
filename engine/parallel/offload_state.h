// State offload: a pass over plans (ZeRO-Offload: Ren et al., arXiv:2101.06840; ZeRO-Infinity: Rajbhandari et
// al., arXiv:2104.07857). Masters and moments are in another space between steps. In the second half of a
// step each block's state is fetched into the arena before its OPTIMIZER_STEP and goes back after it, in
// lanes of its own, while the optimizer updates other blocks; early_fetches.h moves the first FETCHes into
// the backward. The moments of a block with matrices (matrix_homes.h) also come for its MOMENTUM, because
// every MOMENTUM of the step precedes the first OPTIMIZER_STEP. The pass copies bytes, so no result changes.
#pragma once

#include <cstdint>

#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Gives the persistent slots of masters and moments a place in the space `to`, and inserts FETCH and OFFLOAD
/// around each OPTIMIZER_STEP and MOMENTUM. FETCH comes `prefetch` updates ahead; state that is being
/// offloaded keeps its memory for as many updates. Call this for every plan of an engine, because all plans
/// share their persistent slots.
void offload_optimizer_state(plan::Plan* plan, plan::Space to, int64_t prefetch);

}  // namespace hawser::parallel
