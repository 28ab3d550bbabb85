// plan_report: the report of hws_plan_report and `hawser plan`. It lists what one rank does, holds and sends
// in a step, and compares memory and traffic under every ZeRO stage, so that users can choose before anything
// is allocated.
#pragma once

#include <string>

#include "engine/config/config_tree.h"

namespace hawser::train {

/// Returns JSON if `json` is true, otherwise text. Allocates no tensor.
std::string plan_report(const config::ConfigTree& config, bool json);

}  // namespace hawser::train
