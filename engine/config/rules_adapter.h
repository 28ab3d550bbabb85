// What an adapter's config says, and what is wrong with it.
#pragma once

#include <vector>

#include "engine/config/effective.h"
#include "engine/nn/model_config.h"

namespace hawser::config {

/// `config` must be free of problems; `model` is the rest of what it says.
nn::AdapterConfig decode_adapter(const Effective& config, const nn::ModelConfig& model);

/// What can be said without knowing the model.
void check_adapter_fields(const Effective& config, std::vector<Problem>* problems);
/// Names that no module or parameter has ("did you mean"), ranks that are too high, and blocks of NF4 that
/// `tp` ranks would cut.
void check_adapter(const nn::ModelConfig& model, int64_t tp, std::vector<Problem>* problems);

}  // namespace hawser::config
