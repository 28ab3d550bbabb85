// Presets: built-in configs (engine/config/presets/*.json), embedded in the library.
#pragma once

#include <string_view>

namespace hawser::config {

/// Returns the preset's JSON text, or "" for an unknown name. Static storage.
std::string_view find_preset(std::string_view name);

}  // namespace hawser::config
