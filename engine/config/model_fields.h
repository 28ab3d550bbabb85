// Model fields: converts between the model section and ModelConfig, and compares two models. All three walk
// one table, nn::each_model_key; the schema has names and defaults.
#pragma once

#include <string>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/config/effective.h"
#include "engine/nn/model_config.h"

namespace hawser::config {

/// The model in a config without problems.
nn::ModelConfig decode_model(const Effective& config);

/// The model of an empty config: sizes are 0.
nn::ModelConfig default_model();

/// The model section for `model`. It contains every key that applies, including those equal to a default.
OrderedJson model_json(const nn::ModelConfig& model);

/// JSON pointers, below the model section, of differences in the mathematics. Dropout does not count, nor do
/// relative differences of 1e-6, which arise when other programs store numbers in another form.
std::vector<std::string> model_differences(const nn::ModelConfig& a, const nn::ModelConfig& b);

}  // namespace hawser::config
