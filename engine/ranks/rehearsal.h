// Rehearsal: prepares what a device needs once per shape (descriptors, plans, a library's choice of
// algorithm) before the first step, while the arena is still empty, so that no step waits for it. One rank
// (in a pipeline the first rank of each stage, one after the other) chooses algorithms for all ranks. Ranks
// that each timed algorithms for themselves could choose differently, and their sums would differ in the last
// bits. The CPU has nothing to prepare.
#pragma once

#include <string>

#include "engine/ranks/rank.h"

namespace hawser::train {

/// The algorithm choices of the engine's devices.
struct Choices {
  std::string text;      ///< choices of the first rank (Device::choices); "" if there are none
  std::string mismatch;  ///< which rank chose for itself, and why; "" if all use `text`
};

/// Rehearses on all ranks. Collective over the world of `rank`; whatever it throws, all ranks throw
/// (AgreedError). A rank's device may be unable to use the first rank's choices (another GPU or library
/// version). If `deterministic` is set, this is kFailedPrecondition; otherwise the rank chooses for itself,
/// and Choices::apart names it. Restores the arena's initial state.
Choices rehearse(Rank* rank, bool deterministic);

/// Returns a copy of `real` whose functions only prepare a kernel, or do nothing.
kernels::KernelTable rehearsing(const kernels::KernelTable& real);

}  // namespace hawser::train
