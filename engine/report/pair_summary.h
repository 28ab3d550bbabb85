// What an objective over pairs costs, for the plan's report.
#pragma once

#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/config/resolved_config.h"

namespace hawser::train {

/// Lines of the plan; "" for cross_entropy.
std::string pair_summary(const config::ResolvedConfig& config, const std::vector<EnginePlans>& stages);

}  // namespace hawser::train
