// Offload: what leaves a rank's arena, as /offload says: activations between forward and backward
// (offload_activations.h), and the optimizer's state between steps (offload_state.h). Makes the memory
// outside the arena, and the copies to and from it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/device/host_link.h"
#include "engine/parallel/offload_file.h"
#include "engine/parallel/offload_store.h"
#include "engine/parallel/parallel_config.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// The memory of a rank outside its arena, and the copies to and from it. Each is null if the plans need
/// none.
struct OutsideArena {
  std::unique_ptr<OutsideMemory> host;
  char* host_memory = nullptr;  ///< the first byte of the host's space
  std::shared_ptr<OffloadFile> file;
  std::array<std::unique_ptr<OffloadStore>, plan::kCargoes> stores;  ///< indexed by cargo

  bool exists() const { return host || file; }
  /// The state in the file stays as it is now for a save, until end_snapshot, if the file has second places.
  void begin_snapshot() const {
    if (file) file->begin_snapshot();
  }
  void end_snapshot() const {
    if (file) file->end_snapshot();
  }
  /// The copies of a lane that moves cargo.
  OffloadStore* store(plan::Lane lane) const { return stores[static_cast<size_t>(cargo_of(lane))].get(); }
  OutsideMemory* memory(plan::Space space) const {
    return space == plan::Space::kHost ? host.get() : file.get();
  }
};

/// Bytes that one execution of the plan moves from the arena to `space`, and back.
int64_t offloaded_bytes(const plan::Plan& plan, plan::Space space);
int64_t fetched_bytes(const plan::Plan& plan, plan::Space space);

/// The space that the config names; kArena for kOff.
plan::Space space_of(OffloadSpace named);

/// True if a save copies what is in that place into memory before it writes it. `beside_steps`: steps go on
/// meanwhile. `snapshots`: the state in the file has second places.
bool copied_by_saves(OffloadSpace place, bool beside_steps, bool snapshots);

/// Bytes of the second places of state in a rank's file, for saves beside steps. 0 without training.
int64_t snapshot_bytes(const std::vector<const plan::Plan*>& plans);

/// Throws kConfigInvalid if the config names the host's memory and the device works in it already.
void require_offload(const OffloadConfig& config, bool in_place);

/// Pinned memory that make_outside_arena needs for a train plan: the host's space, and memory for copies
/// between a device and a file. `outside`: bytes of all plans.
int64_t offload_staging_bytes(const std::vector<const plan::Plan*>& plans, const plan::BytesBySpace& outside,
                              bool in_place);

/// `staging` is pinned memory of offload_staging_bytes, which outlives the result. `snapshots`: the state in
/// the file has second places. Throws the errors of OffloadFile, DiskStore and the device.
OutsideArena make_outside_arena(const OffloadConfig& config, const std::vector<const plan::Plan*>& plans,
                                const plan::BytesBySpace& outside, const device::HostLink& link,
                                char* staging, bool snapshots);

}  // namespace hawser::parallel
