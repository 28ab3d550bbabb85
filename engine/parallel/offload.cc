#include "engine/parallel/offload.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/parallel/disk_store.h"
#include "engine/parallel/pinned_store.h"
#include "engine/parallel/staged_disk_store.h"

namespace hawser::parallel {
namespace {

using plan::CargoLanes;
using plan::Op;
using plan::Operand;
using plan::Space;

int64_t bytes_in(const plan::BytesBySpace& bytes, Space space) { return bytes[static_cast<size_t>(space)]; }

/// The copies of a cargo's two lanes.
struct Copies {
  Space space = Space::kArena;
  size_t count = 0;     ///< the most of one direction and plan
  int64_t largest = 0;  ///< in whole pages

  int64_t staging_bytes(bool in_place) const {
    return space == Space::kDisk && !in_place ? StagedDiskStore::staging_bytes(largest) : 0;
  }
};

Copies copies_of(const std::vector<const plan::Plan*>& plans, const CargoLanes& lanes) {
  Copies copies;
  for (const plan::Plan* plan : plans) {
    size_t leave = 0, come = 0;
    for (const plan::Instruction& n : plan->instructions) {
      if (n.lane != lanes.out && n.lane != lanes.in) continue;
      const bool out = n.lane == lanes.out;
      (out ? leave : come) += static_cast<size_t>(std::max(n.moved_parts, 1));
      copies.space = plan->slot(n[out ? Operand::kReceived : Operand::kSent]).space;
      copies.largest = std::max(copies.largest, whole_pages(moved_bytes(*plan, n)));
    }
    copies.count = std::max({copies.count, leave, come});
  }
  return copies;
}

/// First bytes of the slots of state in the file, in order.
std::vector<int64_t> state_begins(const plan::Plan& plan) {
  std::vector<int64_t> begins;
  for (const plan::Slot& slot : plan.slots)
    if (slot.persistent && slot.space == Space::kDisk && slot.bytes > 0) begins.push_back(slot.offset);
  std::sort(begins.begin(), begins.end());
  return begins;
}

int64_t moved(const plan::Plan& plan, Space space, Op op, Operand outside) {
  int64_t bytes = 0;
  for (const plan::Instruction& n : plan.instructions)
    if (n.op == op && plan.slot(n[outside]).space == space) bytes += moved_bytes(plan, n);
  return bytes;
}

}  // namespace

int64_t offloaded_bytes(const plan::Plan& plan, Space space) {
  return moved(plan, space, Op::kOffload, Operand::kReceived);
}

int64_t fetched_bytes(const plan::Plan& plan, Space space) {
  return moved(plan, space, Op::kFetch, Operand::kSent);
}

Space space_of(OffloadSpace named) {
  switch (named) {
    case OffloadSpace::kOff:
      break;
    case OffloadSpace::kHost:
      return Space::kHost;
    case OffloadSpace::kDisk:
      return Space::kDisk;
  }
  return Space::kArena;
}

bool copied_by_saves(OffloadSpace place, bool beside_steps, bool snapshots) {
  if (place == OffloadSpace::kOff) return true;
  return beside_steps && !(place == OffloadSpace::kDisk && snapshots);
}

int64_t snapshot_bytes(const std::vector<const plan::Plan*>& plans) {
  int64_t end = 0;
  if (plans.front()->instructions.empty()) return 0;
  for (const plan::Slot& slot : plans.front()->slots)
    if (slot.persistent && slot.space == Space::kDisk) end = std::max(end, slot.offset + slot.bytes);
  return end;
}

void require_offload(const OffloadConfig& config, bool in_place) {
  const auto require = [&](const char* field, OffloadSpace named) {
    if (named == OffloadSpace::kHost && in_place)
      fail(Code::kConfigInvalid,
           "{} \"host\" has no effect: device \"cpu\" computes in the host's memory; use \"disk\" or "
           "\"off\"",
           field);
  };
  require("/offload/activations", config.activations);
  require("/offload/optimizer", config.optimizer);
  require("/offload/parameters", config.parameters);
  require("/offload/gradients", config.gradients);
}

int64_t offload_staging_bytes(const std::vector<const plan::Plan*>& plans, const plan::BytesBySpace& outside,
                              bool in_place) {
  int64_t bytes = bytes_in(outside, Space::kHost);
  for (const CargoLanes& lanes : plan::kCargoLanes) bytes += copies_of(plans, lanes).staging_bytes(in_place);
  return bytes;
}

OutsideArena make_outside_arena(const OffloadConfig& config, const std::vector<const plan::Plan*>& plans,
                                const plan::BytesBySpace& outside, const device::HostLink& link,
                                char* staging, bool snapshots) {
  OutsideArena made;
  char* const host = staging;
  staging += bytes_in(outside, Space::kHost);
  if (bytes_in(outside, Space::kHost) > 0)
    made.host = std::make_unique<PinnedMemory>(host), made.host_memory = host;
  if (const int64_t bytes = bytes_in(outside, Space::kDisk); bytes > 0)
    made.file = snapshots && snapshot_bytes(plans) > 0
                    ? std::make_shared<OffloadFile>(config.folder, bytes, state_begins(*plans.front()),
                                                    snapshot_bytes(plans))
                    : std::make_shared<OffloadFile>(config.folder, bytes);
  const auto make = [&](const CargoLanes& lanes) -> std::unique_ptr<OffloadStore> {
    const Copies copies = copies_of(plans, lanes);
    if (copies.count == 0) return nullptr;
    if (copies.space == Space::kHost)
      return std::make_unique<PinnedStore>(link.shared_device(), host, copies.count);
    if (link.in_place()) return std::make_unique<DiskStore>(made.file, copies.count);
    char* const between = staging;
    staging += copies.staging_bytes(false);
    return std::make_unique<StagedDiskStore>(link.shared_device(), made.file, copies.count, between,
                                             copies.largest);
  };
  for (size_t c = 0; c < plan::kCargoes; ++c) made.stores[c] = make(plan::kCargoLanes[c]);
  return made;
}

}  // namespace hawser::parallel
