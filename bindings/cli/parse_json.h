// parse_json: the command's JSON parser for files and replies of the library. It checks the depth of a text
// first, because copying, comparing and printing a value recurse once per level: a deep file would overflow
// the stack. A test checks that nothing else in the command parses JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace hawser::cli {

/// Maximum nesting of arrays and objects. The library accepts 64 levels, and some replies wrap accepted
/// texts.
inline constexpr int kMostJsonDepth = 128;

/// True if the text nests deeper than kMostJsonDepth.
bool nests_too_deep(std::string_view json);

/// Returns the value of a JSON text. Throws nlohmann::ordered_json::exception if the text is not JSON: a
/// parse_error with the offset, unless a number is out of range. A text that nests too deep is a parse_error
/// too.
nlohmann::ordered_json parse_json(std::string_view text);

/// Like parse_json, but returns a discarded value, which has no type, if the text is not JSON or nests too
/// deep.
nlohmann::ordered_json parse_json_or_discard(std::string_view text);

}  // namespace hawser::cli
