// Measured costs: computes what each instruction of a step cost, from traced timelines of all its ranks, so
// that the simulator can predict the step. On the compute lane, the cost runs from the moment when everything
// that the instruction waits for was done to the start of the next instruction. The cost of a transfer runs
// from the moment when all its ranks had queued it and their lanes were free until it was done on all ranks.
// Both include the time to wake threads. Waiting is not part of any cost, because the simulator computes it.
#pragma once

#include <vector>

#include "engine/plan/simulator.h"

namespace hawser::plan {

/// Takes plans by stage and the timelines of one step by stage and rank, all of one clock; returns cost
/// tables by stage and rank. Throws kFailedPrecondition for a step that did not complete.
std::vector<std::vector<CostTable>> measured_costs(const std::vector<const Plan*>& stages,
                                                   const std::vector<std::vector<Timeline>>& ranks);

/// Returns the summary of the step that the simulator predicts from the traced step's own costs.
PipelineSummary predict_step(const std::vector<const Plan*>& stages,
                             const std::vector<std::vector<Timeline>>& ranks);

/// Same as summarise_pipeline of timeline.h, with timelines by stage and rank.
PipelineSummary summarise_pipeline(const std::vector<const Plan*>& stages,
                                   const std::vector<std::vector<Timeline>>& ranks);

}  // namespace hawser::plan
