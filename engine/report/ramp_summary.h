// ramp_summary: the part of a report about a batch ramp. For a step of each size it gives the memory and, on
// a described cluster, the seconds. All other parts of a report describe the largest step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/base/json.h"
#include "engine/config/batch_config.h"

namespace hawser::train {

/// Predicts the seconds of a step of so many micro-batches.
using StepSeconds = std::function<double(int64_t micro_batches)>;

/// Returns one line for each size; "" if all steps have the same. `seconds` may be null.
std::string ramp_text(const config::BatchConfig& batch, const std::vector<EnginePlans>& stages,
                      const StepSeconds& seconds = nullptr);
/// Returns the same as a list; null if all steps have the same size.
OrderedJson ramp_json(const config::BatchConfig& batch, const std::vector<EnginePlans>& stages,
                      const StepSeconds& seconds = nullptr);

/// The steps that consume `rows` rows, and the sum of their seconds.
struct RunLength {
  double steps = 0, seconds = 0;
};
RunLength run_length(const config::BatchConfig& batch, double rows, const StepSeconds& seconds);

}  // namespace hawser::train
