// What `hawser plan` says of a pipeline: its stages, and a picture of a step.
#pragma once

#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/base/json_fwd.h"

namespace hawser::train {

/// One line for each stage with its blocks, memory and what it sends in a step; then what of a step is waits,
/// as the simulator says, and the picture: a row for each stage and a column for the time of a forward of one
/// chunk. Digits are forwards, letters backwards, capitals their weight halves, each the micro-batch modulo
/// ten; points are waits.
std::string pipeline_text(const std::vector<EnginePlans>& stages);
/// [{"stage", "blocks", "peak_bytes", "host_staging_bytes", "sent_bytes", "idle_share"}]
OrderedJson pipeline_json(const std::vector<EnginePlans>& stages);

}  // namespace hawser::train
