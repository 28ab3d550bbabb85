// Agreement: checks that all ranks of a world have the same config, devices and plans before they start, and
// sums small numbers over ranks.
#pragma once

#include <cstdint>
#include <string>

#include "engine/assembly/plan_digest.h"
#include "engine/base/error.h"
#include "engine/comm/comm.h"
#include "kernels/include/levels.h"

namespace hawser::train {

/// The settings that each rank sends to the others for comparison.
struct Start {
  std::string config_json;
  kernels::CpuLevel level;
  std::string device;          ///< kind of device that the rank computes on
  std::string device_reason;   ///< why this device, if /device is "auto"
  std::string tokenizer = {};  ///< digest of its tokenizer; "" if there is none
};

/// Compares the starts of all ranks. If their configs differ, every rank throws the same kConfigInvalid,
/// which names the first field that differs, the ranks and their values. If "auto" found different devices,
/// every rank throws too: otherwise a GPU could be left idle without notice. Returns the highest CPU level
/// that all ranks have (the generic one if some are x86-64 and some Arm), since levels differ in the last
/// bits of results. Collective; creates a group of the whole world.
kernels::CpuLevel agree_on_start(comm::RankComm* rank, const Start& start);

/// Compares the plans of all ranks. If a rank's plans differ from those of rank 0, every rank throws the same
/// kFailedPrecondition, which names the first such rank and the part that differs. Collective over the world:
/// one call of one group.
void agree_on_plans(comm::RankComm* rank, const PlanDigest& digest);

/// Returns the sum of `here` over the group on every rank. A null group means this rank alone. Collective.
int64_t sum_over_ranks(comm::ProcessGroup* group, int64_t here);

/// Returns true on every rank if `here` is true on any rank of the group. Collective.
inline bool on_any_rank(comm::ProcessGroup* group, bool here) {
  return sum_over_ranks(group, here ? 1 : 0) > 0;
}

}  // namespace hawser::train
