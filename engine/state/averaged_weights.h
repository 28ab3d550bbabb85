// Averaged weights: evaluation, generation and exports with the average of the weights (/optimizer/average), in
// any layout. The masters and their averages change places in memory, and the ranks publish what they then have
// as weights.
#pragma once

#include "engine/ranks/ranks.h"
#include "engine/state/progress.h"

namespace hawser::train {

/// Puts the averages in the place of the weights, or the weights back. Does nothing if they are there. No step
/// may be pending. If a disk (/offload) fails meanwhile, the engine accepts nothing but a load. Collective.
/// Throws kFailedPrecondition if the engine keeps no average.
void use_average(const Ranks& ranks, bool on, Progress* progress);

}  // namespace hawser::train
