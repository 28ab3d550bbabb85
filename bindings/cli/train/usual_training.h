// Usual values for fine-tuning: chosen for `hawser train MODEL_FOLDER`, where the user sets none, as
// somebody would who has done it before.
#pragma once

#include <string>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Returns "bf16" or "fp16" if most of the weights in a Hugging Face folder have that type; otherwise "".
/// Also returns "" if they cannot be read, which opening the model reports.
std::string half_type_of(const std::string& folder);

/// Sets the length of a new run on prepared rows, its validations and its held-out share, as far as the
/// user's options leave them open. Returns a line that says what was chosen and why, the precision included;
/// "" if nothing was. Changes nothing unless CONFIG is a model folder.
std::string choose_training(hws_config* config, const ConfigOptions& options);

}  // namespace hawser::cli
