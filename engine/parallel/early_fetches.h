// Early fetches: a pass over train plans that moves the first FETCHes of the update phase into the backward.
// The first updates need their state (offload_state.h) and weights (offload_weights.h) at once, and the
// update phase has no earlier computation to hide their FETCHes. A FETCH that is moved crosses the border
// between the two phases (plan::assign_border).
#pragma once

#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Moves the FETCHes with which the update phase begins, in their order: each to an early instruction of the
/// last micro-batch's backward, behind the transfers of its lane, at which the plan's peak does not grow. A
/// FETCH that fits nowhere stays. Comes after all other passes.
void fetch_early(plan::Plan* plan);

}  // namespace hawser::parallel
