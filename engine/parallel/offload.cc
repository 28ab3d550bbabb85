#include "engine/parallel/offload.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/parallel/disk_store.h"
#include "engine/parallel/pinned_store.h"
#include "engine/parallel/staged_disk_store.h"

namespace hawser::parallel {
namespace {

using plan::Lane;
using plan::Op;
using plan::Operand;
using plan::Space;

int64_t bytes_in(const plan::BytesBySpace& bytes, Space space) { return bytes[static_cast<size_t>(space)]; }

/// The copies of two lanes, out of the arena and into it.
struct Cargo {
  Space space = Space::kArena;
  size_t copies = 0;    ///< the most of one direction and plan
  int64_t largest = 0;  ///< in whole pages

  int64_t staging_bytes(bool in_place) const {
    return space == Space::kDisk && !in_place ? StagedDiskStore::staging_bytes(largest) : 0;
  }
};

Cargo cargo_of(const std::vector<const plan::Plan*>& plans, Lane out, Lane in) {
  Cargo cargo;
  for (const plan::Plan* plan : plans) {
    size_t leave = 0, come = 0;
    for (const plan::Instruction& n : plan->instructions) {
      if (n.lane != out && n.lane != in) continue;
      (n.lane == out ? leave : come) += static_cast<size_t>(std::max(n.moved_parts, 1));
      cargo.space = plan->slot(n[n.lane == out ? Operand::kReceived : Operand::kSent]).space;
      cargo.largest = std::max(cargo.largest, whole_pages(moved_bytes(*plan, n)));
    }
    cargo.copies = std::max({cargo.copies, leave, come});
  }
  return cargo;
}

/// First bytes of the slots of state in the file, in order.
std::vector<int64_t> state_begins(const plan::Plan& plan) {
  std::vector<int64_t> begins;
  for (const plan::Slot& slot : plan.slots)
    if (slot.persistent && slot.space == Space::kDisk && slot.bytes > 0) begins.push_back(slot.offset);
  std::sort(begins.begin(), begins.end());
  return begins;
}

/// Activations, state and weights.
constexpr std::pair<Lane, Lane> kLanePairs[] = {{Lane::kOffload, Lane::kFetch},
                                                {Lane::kOffloadState, Lane::kFetchState},
                                                {Lane::kOffloadWeights, Lane::kFetchWeights}};

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

bool copied_by_saves(OffloadSpace place, bool beside_steps) {
  return place == OffloadSpace::kOff || (place == OffloadSpace::kHost && beside_steps);
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
  for (const auto& [out, in] : kLanePairs) bytes += cargo_of(plans, out, in).staging_bytes(in_place);
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
  const auto make = [&](const std::pair<Lane, Lane>& lanes) -> std::unique_ptr<OffloadStore> {
    const Cargo cargo = cargo_of(plans, lanes.first, lanes.second);
    if (cargo.copies == 0) return nullptr;
    if (cargo.space == Space::kHost)
      return std::make_unique<PinnedStore>(link.shared_device(), host, cargo.copies);
    if (link.in_place()) return std::make_unique<DiskStore>(made.file, cargo.copies);
    char* const between = staging;
    staging += cargo.staging_bytes(false);
    return std::make_unique<StagedDiskStore>(link.shared_device(), made.file, cargo.copies, between,
                                             cargo.largest);
  };
  made.activations = make(kLanePairs[0]);
  made.state = make(kLanePairs[1]);
  made.weights = make(kLanePairs[2]);
  return made;
}

}  // namespace hawser::parallel
