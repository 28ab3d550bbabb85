// Checks UTF-8 by table 3-7 of Unicode 15.
#include "bindings/cli/utf8.h"

#include <algorithm>
#include <cstdint>

namespace hawser::cli {
namespace {

/// Returns the number of bytes of the character at the start of `text`; 0 if there is no valid one.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0u; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const uint32_t lead = byte(0), second = byte(1);
  if (lead < 0x80) return 1;
  if (!continues(1)) return 0;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) {
    const bool overlong = lead == 0xE0 && second < 0xA0, surrogate = lead == 0xED && second >= 0xA0;
    return continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead < 0xF0 || lead > 0xF4 || !continues(2) || !continues(3)) return 0;
  const bool overlong = lead == 0xF0 && second < 0x90, beyond = lead == 0xF4 && second >= 0x90;
  return overlong || beyond ? 0 : 4;
}

}  // namespace

size_t first_byte_not_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string with_marks(std::string_view text, const char* mark) {
  std::string out;
  while (!text.empty()) {
    const size_t length = character_length(text);
    if (length > 0)
      out += text.substr(0, length);
    else
      out += mark;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace hawser::cli
