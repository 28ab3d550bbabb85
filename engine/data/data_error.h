// Data errors: throw errors that name the file, the position in it and the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/data/vocabulary.h"

namespace hawser::data {

/// Throws kDataInvalid with "file: problem" and details {"file": ..., "offset": ...}. `offset` is in bytes,
/// or negative if the problem has no position.
[[noreturn]] void fail_data(const std::string& file, int64_t offset, const std::string& problem);

/// Throws kDataInvalid for the character at the start of `rest` (not empty), at byte `offset` of the file:
/// invalid UTF-8, or not in `vocabulary`.
[[noreturn]] void fail_character(const std::string& file, int64_t offset, std::string_view rest,
                                 const Vocabulary& vocabulary);

/// Describes a character, such as "U+00E9 'é'"; omits the character itself if it is not printable.
std::string describe_character(uint32_t code_point);

/// Returns the file name without its folder.
std::string base_name(const std::string& path);

}  // namespace hawser::data
