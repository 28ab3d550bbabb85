// offload_report: the part of a plan's report on what leaves the arena.
#pragma once

#include <string>

#include "engine/assembly/engine_plans.h"
#include "engine/base/json.h"

namespace hawser::train {

/// {"disk": {"bytes", "parameters", "optimizer", "gradients", "activations", "snapshots", "bytes_per_step",
/// "bytes_back_per_step"}, "host": ...} in bytes of each rank; null if nothing leaves the arena.
OrderedJson offload_json(const EnginePlans& plans);
/// The same as lines of text. `folder` has the files.
std::string offload_text(const EnginePlans& plans, const std::string& folder);

}  // namespace hawser::train
