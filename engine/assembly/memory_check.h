// Checks whether an engine fits in memory before anything is allocated, and computes what smaller settings
// would save.
#pragma once

#include <cstdint>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"

namespace hawser::train {

/// Bytes that one rank may take.
struct Room {
  int64_t device = 0;  ///< for the arena
  int64_t host = 0;    ///< the same memory as `device` if the host accesses it in place
};

/// Returns the bytes that a rank of this layout copies for a save (save/save_copy.h). `beside_steps`: for an
/// asynchronous one; any other copies only from a device.
int64_t save_copy_bytes(const parallel::ShardLayout& layout, const nn::ParameterTable& table,
                        const config::ResolvedConfig& config, bool beside_steps);

/// Returns the host memory that a rank uses outside its arena: pinned memory, the buffers of its transport,
/// and the copies from which saves write the config's own checkpoints.
int64_t host_bytes(const PinnedBytes& pinned, int64_t staged_bytes, const config::ResolvedConfig& config,
                   const Target& target);

/// Makes the plans. Throws kOutOfMemory unless the arena and the other host memory fit into `room`. If the
/// arena does not fit, the message says what other settings with the same rows per step would save.
std::vector<EnginePlans> make_plans_that_fit(const nn::Model& model, const Assembly& assembly,
                                             const Target& target, const Room& room, bool inference);

}  // namespace hawser::train
