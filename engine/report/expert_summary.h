// What a plan says of experts: what one token uses of them, and how rows go to them.
#pragma once

#include <string>

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"

namespace hawser::train {

/// Lines of the plan; "" for a dense model.
std::string expert_summary(const nn::Model& model, const config::ResolvedConfig& config);

}  // namespace hawser::train
