// The pipeline part of `hawser plan`: a table of the stages and a diagram of a step.
#pragma once

#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/base/json_fwd.h"

namespace hawser::train {

/// Returns one line for each stage with its blocks, memory and bytes sent in a step; then the share of a step
/// that the simulator predicts to be waits; then the diagram. It has a row for each stage and a column for
/// the time of one chunk's forward. Digits are forwards, small letters backwards and recomputes, capitals
/// weight passes. Each digit or letter is the micro-batch modulo ten; points are waits.
std::string pipeline_text(const std::vector<EnginePlans>& stages);
/// [{"stage", "blocks", "peak_bytes", "host_staging_bytes", "sent_bytes", "idle_share"}]
OrderedJson pipeline_json(const std::vector<EnginePlans>& stages);

}  // namespace hawser::train
