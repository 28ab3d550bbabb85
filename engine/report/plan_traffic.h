// traffic_of: a function that sums the bytes that a rank sends in a step by kind of instruction, for the plan
// report (plan_report.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"

namespace hawser::train {

/// The bytes that all instructions of one kind send in a step, and their formula, if one is known.
struct TrafficRow {
  plan::Op op;
  int64_t instructions = 0, bytes = 0;
  std::string formula;
};

/// Returns the traffic of the training plan. Tests evaluate the formulas and compare their bytes with the
/// plan's.
std::vector<TrafficRow> traffic_of(const EnginePlans& plans, const parallel::ShardLayout& layout,
                                   const nn::Model& model, const config::ResolvedConfig& config);
/// Bytes of all instructions of a plan.
int64_t sent_bytes(const plan::Plan& plan);

}  // namespace hawser::train
