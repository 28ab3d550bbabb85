// Rehearsal: what a device makes once for each shape (descriptors, plans, the choice among algorithms of a
// library) it makes before the first step, when the arena holds nothing of worth yet, so no step waits for
// it. The first rank chooses for all: each timing for itself, ranks would not choose alike, and sums that
// should have the same bits would not. On the CPU there is nothing to make.
#pragma once

#include <string>

#include "engine/train/ranks/rank.h"

namespace hawser::train {

/// What the engine's devices chose.
struct Choices {
  std::string text;   ///< of the first rank (Device::choices); "" where nothing is chosen
  std::string apart;  ///< which rank chose for itself, and why; "": all took the first one's
};

/// Collective over the world of `rank`; what it throws, all ranks throw (AgreedError). Where a rank's device
/// cannot take what the first chose (another GPU or library): under `deterministic` kFailedPrecondition, else
/// it chooses for itself, and is named. Leaves the arena as it was made.
Choices rehearse(Rank* rank, bool deterministic);

/// `real` with functions that do nothing, or prepare.
kernels::KernelTable rehearsing(const kernels::KernelTable& real);

}  // namespace hawser::train
