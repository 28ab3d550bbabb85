// Model fields: converts between the model section and ModelConfig, and compares two models. All three walk
// one table, nn::each_model_key; the schema has names and defaults.
#pragma once

#include <string>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/config/effective.h"
#include "engine/nn/model_config.h"

namespace hawser::config {

/// Returns the model in a config without problems.
nn::ModelConfig decode_model(const Effective& config);

/// Returns the model of an empty config, whose sizes are 0.
nn::ModelConfig default_model();

/// Returns the model section for `model`, with every key that applies, including those equal to a default.
OrderedJson model_json(const nn::ModelConfig& model);

/// Returns the JSON pointers, below the model section, of differences in the mathematics. Dropout does not
/// count, nor do relative differences of 1e-6, which arise when other programs store numbers in another form.
std::vector<std::string> model_differences(const nn::ModelConfig& a, const nn::ModelConfig& b);

}  // namespace hawser::config
