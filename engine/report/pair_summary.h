// pair_summary: the lines of a plan report about the cost of an objective over pairs.
#pragma once

#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/config/resolved_config.h"

namespace hawser::train {

/// Returns "" for an objective without pairs.
std::string pair_summary(const config::ResolvedConfig& config, const std::vector<EnginePlans>& stages);

}  // namespace hawser::train
