// Finds the byte at which nlohmann's parser stops before the end of a text: it accepts a NUL byte as the end,
// without an error.
#pragma once

#include <string_view>

namespace hawser {

/// Returns the offset of the first NUL byte if bytes other than NUL follow it, which the parser would ignore;
/// else npos.
inline size_t early_end_of_json(std::string_view json) {
  const size_t at = json.find('\0');
  return json.find_first_not_of('\0', at) == json.npos ? json.npos : at;
}

}  // namespace hawser
