// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table 3-7). All of it
// is in the header because it runs for each character of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hawser {

inline constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFFu;
inline constexpr int64_t kMostUtf8Bytes = 4;  ///< of one code point

/// Returns the code point at text[*at] and advances *at. Requires *at < size. Invalid UTF-8 gives
/// kInvalidCodePoint and leaves *at unchanged.
inline uint32_t next_code_point(const char* text, size_t size, size_t* at) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text) + *at;
  const size_t left = size - *at;
  const uint32_t lead = bytes[0];
  if (lead < 0x80) {
    *at += 1;
    return lead;
  }
  const auto continues = [&](size_t i) { return (bytes[i] & 0xC0u) == 0x80u; };
  if (lead >= 0xC2 && lead < 0xE0 && left >= 2 && continues(1)) {
    *at += 2;
    return ((lead & 0x1Fu) << 6) | (bytes[1] & 0x3Fu);
  }
  if (lead >= 0xE0 && lead < 0xF0 && left >= 3 && continues(1) && continues(2)) {
    const uint32_t point = ((lead & 0x0Fu) << 12) | ((bytes[1] & 0x3Fu) << 6) | (bytes[2] & 0x3Fu);
    if (point < 0x800 || (point >= 0xD800 && point < 0xE000)) return kInvalidCodePoint;
    *at += 3;
    return point;
  }
  if (lead >= 0xF0 && lead < 0xF5 && left >= 4 && continues(1) && continues(2) && continues(3)) {
    const uint32_t point =
        ((lead & 0x07u) << 18) | ((bytes[1] & 0x3Fu) << 12) | ((bytes[2] & 0x3Fu) << 6) | (bytes[3] & 0x3Fu);
    if (point < 0x10000 || point > 0x10FFFF) return kInvalidCodePoint;
    *at += 4;
    return point;
  }
  return kInvalidCodePoint;
}

/// The longest prefix of `text` with at most `most` bytes that ends between two characters.
inline std::string_view cut_between_characters(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<uint8_t>(text[most]) & 0xC0u) == 0x80u) --most;
  return text.substr(0, most);
}

/// The text with '?' for each byte that is not valid UTF-8.
inline std::string as_utf8(std::string text) {
  for (size_t at = 0; at < text.size();) {
    if (next_code_point(text.data(), text.size(), &at) == kInvalidCodePoint) text[at++] = '?';
  }
  return text;
}

/// True if `point` is a Unicode scalar value, which UTF-8 can encode.
inline bool is_scalar_value(uint32_t point) {
  return point < 0xD800 || (point >= 0xE000 && point <= 0x10FFFF);
}

/// Appends a scalar value as UTF-8.
inline void append_code_point(uint32_t point, std::string* out) {
  const auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0u | (point >> 6));
    put(0x80u | (point & 0x3Fu));
  } else if (point < 0x10000) {
    put(0xE0u | (point >> 12));
    put(0x80u | ((point >> 6) & 0x3Fu));
    put(0x80u | (point & 0x3Fu));
  } else {
    put(0xF0u | (point >> 18));
    put(0x80u | ((point >> 12) & 0x3Fu));
    put(0x80u | ((point >> 6) & 0x3Fu));
    put(0x80u | (point & 0x3Fu));
  }
}

}  // namespace hawser
