// UTF-8, strictly. Configs, reports and metrics are UTF-8, and with them every path that stands in one.
#pragma once

#include <string>
#include <string_view>

namespace hawser::cli {

/// Offset of the first byte that is not UTF-8 (overlong forms and surrogates are not); npos: all is.
size_t first_byte_not_utf8(std::string_view text);

/// The text with `mark` in place of each byte that is not UTF-8.
std::string with_marks(std::string_view text, const char* mark);

}  // namespace hawser::cli
