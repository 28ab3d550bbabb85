// Deadlock detection for pipelines. Replays the plans of all stages together under the rules of
// pipeline_replay.h and reports what each blocked stage waits for.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Returns "" if the plans, one for each stage, complete; otherwise what each stage waits for.
std::string find_deadlock(const std::vector<const Plan*>& stages);
/// True if the first `ends` instructions of each stage, whose waits are known (early_plan.h), deadlock.
bool deadlocks_early(const std::vector<const Plan*>& stages, const std::vector<size_t>& ends);

}  // namespace hawser::plan
