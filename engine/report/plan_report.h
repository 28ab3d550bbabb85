// The plan report (hws_plan_report, `hawser plan`): what one rank does, holds and sends in a step, and the
// same under every other ZeRO stage, so that users can choose before anything is allocated.
#pragma once

#include <string>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// Returns JSON if `json`, else text. Allocates no tensor.
std::string plan_report(const config::ConfigTree& config, bool json);

}  // namespace hawser::train
