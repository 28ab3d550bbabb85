// expert_summary: the lines of a plan report about experts: the parameters that one token uses, and how rows
// are sent to experts.
#pragma once

#include <string>

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"

namespace hawser::train {

/// Returns "" for a dense model.
std::string expert_summary(const nn::Model& model, const config::ResolvedConfig& config);

}  // namespace hawser::train
