// What all ranks of a world must have in common: before anything else is said, and where one speaks for all.
#pragma once

#include <string>

#include "engine/comm/comm.h"
#include "kernels/include/levels.h"

namespace hawser::train {

/// Compares the configs of all ranks. Where they differ, every rank throws the same kConfigInvalid, which
/// names the first field that differs, the ranks and their values. Returns the lowest level of kernels among
/// them, which all can run: levels differ in the last bits of results. Collective; makes a group of the whole
/// world.
kernels::CpuLevel agree_on_start(comm::RankComm* rank, const std::string& config_json,
                                 kernels::CpuLevel level);

/// Whether any rank of the group (null: this one alone) says so; the same answer on all. Collective.
bool on_any_rank(comm::ProcessGroup* group, bool here);

}  // namespace hawser::train
