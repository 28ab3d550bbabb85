// The plan's report (hws_plan_report, `hawser plan`): what one rank does, holds and sends in a step, and what
// it would under every other ZeRO stage, so that users can choose before anything is allocated.
#pragma once

#include <string>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// json: as JSON, else as text. Allocates no tensor.
std::string plan_report(const config::ConfigTree& config, bool json);

}  // namespace hawser::train
