// What all ranks of a world must agree on before they start, and helpers to share one rank's answer or error.
#pragma once

#include <cstdint>
#include <string>

#include "engine/assembly/plan_digest.h"
#include "engine/base/error.h"
#include "engine/comm/comm.h"
#include "kernels/include/levels.h"

namespace hawser::train {

/// What each rank contributes to the agreement.
struct Start {
  std::string config_json;
  kernels::CpuLevel level;
  std::string device;          ///< the device it computes on
  std::string device_reason;   ///< why, if /device is "auto"
  std::string tokenizer = {};  ///< its digest; "" without one
};

/// Compares the starts of all ranks. If their configs differ, every rank throws the same kConfigInvalid,
/// which names the first field that differs, the ranks and their values. If "auto" found different devices,
/// every rank throws too: otherwise a GPU could be left idle without notice. Returns the lowest CPU kernel
/// level of all ranks, since levels differ in the last bits of results. Collective; creates a group of the
/// whole world.
kernels::CpuLevel agree_on_start(comm::RankComm* rank, const Start& start);

/// Compares what all ranks planned. If one differs from rank 0, every rank throws the same
/// kFailedPrecondition, which names the first such rank and the part that differs. Collective over the world:
/// one call of one group.
void agree_on_plans(comm::RankComm* rank, const PlanDigest& digest);

/// The sum of `here` over the group, the same on every rank. A null group means this rank alone. Collective.
int64_t sum_over_ranks(comm::ProcessGroup* group, int64_t here);

/// Whether `here` is true on any rank of the group; the same answer on every rank. Collective.
inline bool on_any_rank(comm::ProcessGroup* group, bool here) {
  return sum_over_ranks(group, here ? 1 : 0) > 0;
}

}  // namespace hawser::train
