// Activation offload: a pass over the plan (Rajbhandari et al., arXiv:2104.07857, section 5; here it moves
// saved activations and block inputs). The data that a block saves for its backward is copied to another
// space after its last use in forward, and back before its first use in backward. Each direction has a lane
// of its own, so that other blocks compute meanwhile. The pass copies bytes, so no result changes.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/device/host_link.h"
#include "engine/parallel/offload_store.h"
#include "engine/parallel/parallel_config.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Inserts OFFLOAD and FETCH into a train plan. FETCH comes `prefetch` blocks before the use; a slot that is
/// being offloaded keeps its memory for as many blocks as `prefetch`, so that nothing waits if the space is
/// as fast as the blocks. Slots that are used again too soon for both copies stay in the arena.
void offload_activations(plan::Plan* plan, plan::Space to, int64_t prefetch);

/// Returns the size of the largest slot that moves, in complete pages.
int64_t largest_move(const plan::Plan& plan);

/// Returns the bytes that one execution of the plan moves out; the same number is moved back.
int64_t offloaded_bytes(const plan::Plan& plan);

/// The space that `config` names; kArena if activations stay there.
plan::Space offload_space(const OffloadConfig& config);

/// Throws kConfigInvalid if the config names the host's memory and the device works in it already.
void require_offload(const OffloadConfig& config, bool in_place);

/// Pinned memory that the store of a train plan with `bytes` in the other space needs.
int64_t offload_staging_bytes(const OffloadConfig& config, const plan::Plan& plan, int64_t bytes,
                              bool in_place);

/// The store for `plan`; null if nothing leaves the arena. `staging` is pinned memory of
/// offload_staging_bytes, which outlives the store.
std::unique_ptr<OffloadStore> make_offload_store(const OffloadConfig& config, const plan::Plan& plan,
                                                 int64_t bytes, const device::HostLink& link, char* staging);

}  // namespace hawser::parallel
