// Activation offload: a pass over the plan (Rajbhandari et al., arXiv:2104.07857, section 5; here it moves
// saved activations and block inputs). The data that a block saves for its backward is copied to another
// space after its last use in forward, and back before its first use in backward. Each direction has a lane
// of its own, so that other blocks compute meanwhile. The pass copies bytes, so no result changes.
#pragma once

#include <cstdint>

#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Inserts OFFLOAD and FETCH into a train plan. FETCH comes `prefetch` blocks before the use; a slot that is
/// being offloaded keeps its memory for as many blocks as `prefetch`, so that nothing waits if the space is
/// as fast as the blocks. Slots that are used again too soon for both copies stay in the arena.
void offload_activations(plan::Plan* plan, plan::Space to, int64_t prefetch);

}  // namespace hawser::parallel
