// other_model: builds the config of an engine that runs another model, the reference of an objective or a
// teacher, on the data and ranks of a config.
#pragma once

#include <string>

#include "engine/assembly/assemble.h"
#include "engine/base/json.h"
#include "engine/config/config_tree.h"

namespace hawser::train {

/// Returns the sections that name the model in `folder`, which is the value of the field `pointer`. Throws
/// kNotFound if the folder has no model, and kConfigInvalid if the size of its vocabulary or its tokenizer
/// differs from that of `assembly`.
OrderedJson other_model(const Assembly& assembly, const char* pointer, const std::string& folder);

/// Returns the config of an engine for the model that these sections name, with the data, ranks and
/// precision of `assembly`.
config::ConfigTree on_same_data(const Assembly& assembly, OrderedJson model);

}  // namespace hawser::train
