// Whether an engine fits, told before anything is allocated, and which settings would save how much.
#pragma once

#include <cstdint>

#include "engine/train/assembly/assemble.h"
#include "engine/train/assembly/engine_plans.h"

namespace hawser::train {

/// Bytes that one rank may take.
struct Room {
  int64_t device = 0;  ///< for the arena
  int64_t host = 0;    ///< the same memory where the device is worked on in place
};

/// What a rank takes of the host beside an arena there: pinned memory of a device, and the copies from which
/// the config's own checkpoints are written.
int64_t host_bytes(const PinnedBytes& pinned, int64_t staged_bytes, const config::ResolvedConfig& config,
                   const Target& target);

/// The plans of an engine that fits: throws kOutOfMemory, with what smaller settings would save (of steps
/// with the same rows), unless the arena and what the host holds beside it fit into `room`.
EnginePlans make_plans_that_fit(const nn::Model& model, const Assembly& assembly, const Target& target,
                                const Room& room, bool inference);

}  // namespace hawser::train
