// JSON check: validates JSON from untrusted files before anything is built from it: strict syntax, valid
// UTF-8, no duplicate keys, bounded depth.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace hawser::checkpoint {

inline constexpr int kMaxJsonDepth = 64;  ///< must not exceed kMostJsonDepth of engine/base/json.h

/// Throws `code` unless `text` is one JSON object; the message has the fault and byte offset, or the key.
/// `where` is the file, for messages. Depth counts nested objects and arrays. Returns the number of values
/// (numbers, strings, objects, arrays and so on), each of which needs far more memory than its text.
int64_t check_json_object(std::string_view text, const std::string& where, Code code,
                          int max_depth = kMaxJsonDepth);

/// Quotes text for messages, without control characters and long tails.
std::string in_quotes(std::string_view text);

}  // namespace hawser::checkpoint
