// The command's one parser of JSON: files and replies of the library. A text is checked for its depth first, because
// copying, comparing and printing a value recurse once for each level, so a deep file would overflow the stack. A test
// checks that nothing else in the command parses JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace hawser::cli {

/// Most levels of arrays and objects. Texts that the library takes have at most 64, and some replies wrap them.
inline constexpr int kMostJsonDepth = 128;

/// True if the text nests deeper than kMostJsonDepth.
bool nests_too_deep(std::string_view json);

/// The value of a JSON text. Throws nlohmann::ordered_json::exception for other texts: parse_error, which has the
/// offset, unless a number is out of range. A text that nests too deep is a parse_error too.
nlohmann::ordered_json parse_json(std::string_view text);

/// The same, but a text that is not JSON, or too deep, gives a discarded value, which is of no type.
nlohmann::ordered_json parse_json_or_discard(std::string_view text);

}  // namespace hawser::cli
