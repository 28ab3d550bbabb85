// Support check: refuses features that GPUs do not support yet. The config's rules refuse them only if
// /device is "cuda"; this check also refuses them if "auto" has chosen a GPU.
#pragma once

#include <string_view>

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"

namespace hawser::train {

/// Throws kConfigInvalid if the model or its training needs something that the device with these kernels
/// (KernelTable::name) does not have.
void require_supported(const nn::Model& model, const config::ResolvedConfig& config, std::string_view kernels,
                       bool inference);

}  // namespace hawser::train
