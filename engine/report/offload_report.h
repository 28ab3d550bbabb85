// offload_report: the part of a plan's report on what leaves the arena.
#pragma once

#include <string>
#include <vector>

#include "engine/assembly/engine_plans.h"
#include "engine/base/json.h"
#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"
#include "engine/parallel/offload_formulas.h"

namespace hawser::train {

/// Returns what the copies of a training step move, with the closed forms (parallel/offload_formulas.h).
std::vector<parallel::Moves> moves_in_step(const EnginePlans& plans, const parallel::ShardLayout& layout,
                                           const nn::Model& model, const config::ResolvedConfig& config);

/// {"disk": {"bytes", "parameters", "optimizer", "gradients", "activations", "snapshots", "bytes_per_step",
/// "bytes_back_per_step", "moves": [{"what", "bytes_per_step", "bytes_back_per_step", "page_bytes",
/// "closed_form"}, ...]}, "host": ...} in bytes of each rank; null if nothing leaves the arena. "closed_form"
/// is null if none is known.
OrderedJson offload_json(const EnginePlans& plans, const std::vector<parallel::Moves>& moves);
/// The same as lines of text. `folder` has the files.
std::string offload_text(const EnginePlans& plans, const std::vector<parallel::Moves>& moves,
                         const std::string& folder);

}  // namespace hawser::train
