// Averaged weights: evaluation, generation and exports with the average of the weights (/optimizer/average),
// in any layout. The fp32 weights and their averages are swapped in memory, and the ranks then publish the
// weights in their compute type.
#pragma once

#include "engine/ranks/ranks.h"
#include "engine/state/progress.h"

namespace hawser::train {

/// Swaps the weights with their averages (on), or back. Does nothing if this is already so. No step may be
/// pending. If a disk (/offload) fails meanwhile, the engine accepts nothing but a load. Collective. Throws
/// kFailedPrecondition if the engine keeps no average.
void use_average(const Ranks& ranks, bool on, Progress* progress);

}  // namespace hawser::train
