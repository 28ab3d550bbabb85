// The model section and ModelConfig, each made from the other, and two models compared. All walk one table,
// nn::each_model_key; words and defaults are the schema's.
#pragma once

#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/config/effective.h"
#include "engine/nn/model_config.h"

namespace hawser::config {

/// What a config without problems says of the model.
nn::ModelConfig decode_model(const Effective& config);

/// What it says when nothing is given: sizes are 0.
nn::ModelConfig default_model();

/// The model section that says `model`. Every key that applies is there, also where it equals a default.
OrderedJson model_json(const nn::ModelConfig& model);

/// JSON pointers, below the model section, of what differs in the mathematics: dropout does not count, nor do
/// numbers that differ by 1e-6 of themselves, as they do when other programs' files store them in another form.
std::vector<std::string> model_differences(const nn::ModelConfig& a, const nn::ModelConfig& b);

}  // namespace hawser::config
