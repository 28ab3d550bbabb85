// What each instruction of a step took, from traced timelines of all its ranks: the costs with which the
// simulator foretells a step. The compute lane's costs run from the moment when all that an instruction waits
// for was done to the next instruction; a transfer's from when all its ranks had given it to their lanes, and
// these were free, until it was done everywhere. So waking threads is part of both. What a rank waited is no
// cost: the simulator finds it out.
#pragma once

#include <vector>

#include "engine/plan/simulator.h"

namespace hawser::plan {

/// Plans by stage, timelines of one step by stage and rank, all of one clock; tables likewise. Throws
/// kFailedPrecondition for a step that was not taken to its end.
std::vector<std::vector<CostTable>> measured_costs(const std::vector<const Plan*>& stages,
                                                   const std::vector<std::vector<Timeline>>& ranks);

/// The step that the simulator foretells from a traced step's own costs.
Ramp predict_step(const std::vector<const Plan*>& stages, const std::vector<std::vector<Timeline>>& ranks);

/// ramp_of timelines by stage and rank.
Ramp ramp_of(const std::vector<const Plan*>& stages, const std::vector<std::vector<Timeline>>& ranks);

}  // namespace hawser::plan
