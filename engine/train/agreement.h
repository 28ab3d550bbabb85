// What all ranks of a world must have in common before anything else is said.
#pragma once

#include <string>

#include "engine/comm/comm.h"

namespace hawser::train {

/// Compares the configs of all ranks, and the level of their kernels, which decides the last bits of results.
/// Where they differ, every rank throws the same kConfigInvalid, which names the first field that differs,
/// the ranks and their values. Collective; makes a group of the whole world.
void agree_on_config(comm::RankComm* rank, const std::string& config_json, const std::string& kernel_level);

}  // namespace hawser::train
