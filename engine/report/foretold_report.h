// Foretold report: what hws_plan_create_on and `hawser plan --cluster` say about a config on a cluster that
// need not be here: the seconds of a step, where they go, and the memory of every stage.
#pragma once

#include <string>
#include <string_view>

#include "engine/config/config_tree.h"

namespace hawser::train {

struct PlanTexts {
  std::string text, json;
};

/// `cluster`: JSON, or the name of a cluster in the library. `tokens`: of a whole run, for its days; 0: none.
/// Allocates no tensor and opens no device. Throws kInvalidArgument for a cluster that is not valid or
/// `tokens` below 0, and what plan_report throws for the config.
PlanTexts foretold_plan(const config::ConfigTree& config, std::string_view cluster, double tokens);

}  // namespace hawser::train
