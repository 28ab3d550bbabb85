// Where nlohmann's parser ends before its text does: at a NUL byte, without an error.
#pragma once

#include <string_view>

namespace hawser {

/// The offset of a NUL byte with other bytes behind it, which the parser would ignore; npos if there is none.
inline size_t early_end_of_json(std::string_view json) {
  const size_t at = json.find('\0');
  return json.find_first_not_of('\0', at) == json.npos ? json.npos : at;
}

}  // namespace hawser
