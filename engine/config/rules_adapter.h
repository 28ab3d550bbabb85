// Adapter rules: decode the adapter section and find its problems.
#pragma once

#include <vector>

#include "engine/config/effective.h"
#include "engine/nn/model_config.h"

namespace hawser::config {

/// Decodes the section. `config` must be free of problems; `model` has been decoded from the same config.
nn::AdapterConfig decode_adapter(const Effective& config, const nn::ModelConfig& model);

/// Finds problems that do not depend on the model.
void check_adapter_fields(const Effective& config, std::vector<Problem>* problems);
/// Finds names that match no module or parameter ("did you mean"), ranks that are too high, and NF4 blocks
/// that `tp` ranks would split.
void check_adapter(const nn::ModelConfig& model, int64_t tp, std::vector<Problem>* problems);

}  // namespace hawser::config
