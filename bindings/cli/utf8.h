// utf8: functions that check text for strict UTF-8. Configs, reports and metrics are UTF-8, and so is every
// path in them.
#pragma once

#include <string>
#include <string_view>

namespace hawser::cli {

/// Returns the offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are invalid);
/// npos if all bytes are valid.
size_t first_byte_not_utf8(std::string_view text);

/// Returns the text with `mark` in place of each invalid byte.
std::string with_marks(std::string_view text, const char* mark);

}  // namespace hawser::cli
