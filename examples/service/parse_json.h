// The service's one parser of JSON. It bounds the depth first: copying and printing a value recurse once for each level,
// so a request with 100,000 nested lists would overflow the stack and end the service.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace service {

/// Most levels of arrays and objects. A config has at most 32, and job.json wraps it.
inline constexpr int kMostJsonDepth = 64;

/// The value of a JSON text; a discarded value, which is of no type, if the text is not JSON or nests too deep.
nlohmann::json parse_json(std::string_view text);

}  // namespace service
