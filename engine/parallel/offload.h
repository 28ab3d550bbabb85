// Offload of activations as a pass over the plan (Rajbhandari et al., arXiv:2104.07857, section 5; here it
// moves what blocks save and their inputs). What a block leaves for its backward travels to another space
// after the last use in forward, and back before the first use in backward, each in a lane of its own while
// other blocks compute. The pass copies bytes, so no result changes.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/device/host_link.h"
#include "engine/parallel/offload_store.h"
#include "engine/parallel/parallel_config.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// Inserts OFFLOAD and FETCH into a train plan. FETCH comes `prefetch` blocks before the use; a slot on its
/// way out keeps its bytes for as many blocks, so that nothing waits for a space as fast as the blocks. Slots
/// that are used again before both could happen stay where they are.
void offload_activations(plan::Plan* plan, plan::Space to, int64_t prefetch);

/// The most bytes of a slot that moves, in whole pages.
int64_t largest_move(const plan::Plan& plan);

/// Bytes that a run of the plan moves out; as many come back.
int64_t offloaded_bytes(const plan::Plan& plan);

/// The space that `config` names; kArena: activations stay.
plan::Space offload_space(const OffloadConfig& config);

/// Throws kConfigInvalid for a device that gains nothing: one on which the host works in place.
void require_offload(const OffloadConfig& config, bool in_place);

/// Pinned memory that the store of a train plan with `bytes` in the other space needs.
int64_t offload_staging_bytes(const OffloadConfig& config, const plan::Plan& plan, int64_t bytes,
                              bool in_place);

/// The store for `plan`; null if nothing leaves the arena. `staging` is pinned memory of
/// offload_staging_bytes, which outlives the store.
std::unique_ptr<OffloadStore> make_offload_store(const OffloadConfig& config, const plan::Plan& plan,
                                                 int64_t bytes, const device::HostLink& link, char* staging);

}  // namespace hawser::parallel
