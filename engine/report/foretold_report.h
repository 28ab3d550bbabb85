// Foretold report: the report of hws_plan_create_on and `hawser plan --cluster`: the predicted seconds of a
// step on a cluster, where they go, and the memory of every stage.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/config/config_tree.h"
#include "engine/report/trace_report.h"

namespace hawser::train {

struct PlanTexts {
  std::string text, json;
  /// Returns the predicted step, with one rank of each stage, in the form of a measured one (trace_report.h).
  /// Null if no step was predicted. May be called on any thread.
  std::function<std::string(TraceForm)> trace = {};
};

/// Predicts a step. `cluster`: JSON, or the name of a cluster in the library. `tokens`: the tokens of a whole
/// run, to predict its days; 0: no prediction of a run. `imbalance`: as for Forecast. Allocates no tensor and
/// opens no device. Throws kInvalidArgument for a cluster that is not valid, `tokens` below 0 and the errors
/// of require_imbalance, and the errors of plan_report for the config.
PlanTexts foretold_plan(const config::ConfigTree& config, std::string_view cluster, double tokens,
                        double imbalance = 1);

}  // namespace hawser::train
