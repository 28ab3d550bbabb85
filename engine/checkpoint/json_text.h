// JSON from untrusted files is checked before anything is built from it: strict syntax, valid UTF-8, no
// duplicate keys, bounded depth.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace hawser::checkpoint {

inline constexpr int kMaxJsonDepth = 64;

/// Throws `code` (for syntax: what, byte offset; for the rest: the key) unless `text` is one JSON object.
/// `where` is the file it came from, for messages. Depth counts nested objects and arrays. Returns how many
/// values there are (numbers, texts and so on, objects and arrays), each of which costs far more memory than
/// its text.
int64_t check_json_object(std::string_view text, const std::string& where, Code code,
                          int max_depth = kMaxJsonDepth);

/// Text in single quotes for messages: control characters and long tails left out.
std::string in_quotes(std::string_view text);

}  // namespace hawser::checkpoint
