#include "engine/parallel/offload.h"

#include <algorithm>
#include <iterator>

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

/// The copies of a lane to its space; those in the other direction are as many.
struct Cargo {
  Space space = Space::kArena;
  size_t copies = 0;
  int64_t largest = 0;  ///< in whole pages

  int64_t staging_bytes(bool in_place) const {
    return space == Space::kDisk && !in_place ? StagedDiskStore::staging_bytes(largest) : 0;
  }
};

Cargo cargo_of(const plan::Plan& plan, Lane lane) {
  Cargo cargo;
  for (const plan::Instruction& n : plan.instructions) {
    if (n.op != Op::kOffload || n.lane != lane) continue;
    cargo.space = plan.slot(n[Operand::kReceived]).space;
    cargo.copies += 1;
    cargo.largest = std::max(cargo.largest, whole_pages(moved_bytes(plan, n)));
  }
  return cargo;
}

}  // namespace

int64_t offloaded_bytes(const plan::Plan& plan, Space space) {
  int64_t bytes = 0;
  for (const plan::Instruction& n : plan.instructions)
    if (n.op == Op::kOffload && plan.slot(n[Operand::kReceived]).space == space)
      bytes += moved_bytes(plan, n);
  return bytes;
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
}

int64_t offload_staging_bytes(const plan::Plan& train, const plan::BytesBySpace& outside, bool in_place) {
  return bytes_in(outside, Space::kHost) + cargo_of(train, Lane::kOffload).staging_bytes(in_place) +
         cargo_of(train, Lane::kOffloadState).staging_bytes(in_place);
}

OutsideArena make_outside_arena(const OffloadConfig& config, const plan::Plan& train,
                                const plan::BytesBySpace& outside, const device::HostLink& link,
                                char* staging) {
  OutsideArena made;
  char* const host = staging;
  staging += bytes_in(outside, Space::kHost);
  if (bytes_in(outside, Space::kHost) > 0) made.host = std::make_unique<PinnedMemory>(host);
  if (const int64_t bytes = bytes_in(outside, Space::kDisk); bytes > 0)
    made.file = std::make_shared<OffloadFile>(config.folder, bytes);
  const auto make = [&](Lane lane) -> std::unique_ptr<OffloadStore> {
    const Cargo cargo = cargo_of(train, lane);
    if (cargo.copies == 0) return nullptr;
    if (cargo.space == Space::kHost)
      return std::make_unique<PinnedStore>(link.shared_device(), host, cargo.copies);
    if (link.in_place()) return std::make_unique<DiskStore>(made.file, cargo.copies);
    char* const between = staging;
    staging += cargo.staging_bytes(false);
    return std::make_unique<StagedDiskStore>(link.shared_device(), made.file, cargo.copies, between,
                                             cargo.largest);
  };
  made.activations = make(Lane::kOffload);
  made.state = make(Lane::kOffloadState);
  return made;
}

}  // namespace hawser::parallel
