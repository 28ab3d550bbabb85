// The last step of resolve: turns a valid effective config into the plain structs that the engine uses.
#pragma once

#include "engine/config/effective.h"
#include "engine/config/resolved_config.h"

namespace hawser::config {

/// `config` must be free of problems.
ResolvedConfig decode(const Effective& config);

}  // namespace hawser::config
