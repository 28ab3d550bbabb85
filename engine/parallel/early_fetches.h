// Early fetches: a pass over train plans that moves the first FETCHes of the update phase into the backward.
// The first updates need their state (offload_state.h) and weights (offload_weights.h) at once, and in the
// update phase nothing else computes meanwhile. Such a FETCH crosses the border between the two phases
// (plan::assign_border).
#pragma once

#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Moves the FETCHes with which the update phase begins, in their order, each to the earliest instruction of
/// the last micro-batch's backward from which on its window fits below the plan's peak, and behind the
/// transfers of its lane. So the peak does not grow, and a FETCH that fits nowhere stays. Comes after all
/// other passes.
void fetch_early(plan::Plan* plan);

}  // namespace hawser::parallel
