// JSON parser of the service: checks the depth of a text before it parses. Copying and printing a value
// recurse once per level, so a request with 100,000 nested lists would overflow the stack and end the
// service.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace service {

/// Maximum nesting of arrays and objects. A config has at most 32 levels, and job.json wraps it.
inline constexpr int kMostJsonDepth = 64;

/// Returns the value of a JSON text, or a discarded value, which has no type, if the text is not JSON or
/// nests too deep.
nlohmann::json parse_json(std::string_view text);

}  // namespace service
