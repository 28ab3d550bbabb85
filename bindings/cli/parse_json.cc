#include "bindings/cli/parse_json.h"

#include <string>

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Returns the offset of the first bracket that nests deeper than kMostJsonDepth; npos if there is none.
size_t too_deep_at(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostJsonDepth) return i;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return std::string_view::npos;
}

/// Returns the offset of a NUL byte with other bytes after it, which the parser would ignore; npos if there
/// is none.
size_t nul_at(std::string_view json) {
  const size_t at = json.find('\0');
  return json.find_first_not_of('\0', at) == std::string_view::npos ? std::string_view::npos : at;
}

}  // namespace

bool nests_too_deep(std::string_view json) { return too_deep_at(json) != std::string_view::npos; }

ordered_json parse_json(std::string_view text) {
  if (const size_t at = too_deep_at(text); at != std::string_view::npos)
    throw ordered_json::parse_error::create(
        101, at + 1, "values are nested in more than " + std::to_string(kMostJsonDepth) + " levels", nullptr);
  if (const size_t at = nul_at(text); at != std::string_view::npos)
    throw ordered_json::parse_error::create(101, at + 1, "a NUL byte, which JSON does not have", nullptr);
  return ordered_json::parse(text);
}

ordered_json parse_json_or_discard(std::string_view text) {
  return nests_too_deep(text) || nul_at(text) != std::string_view::npos
             ? ordered_json(ordered_json::value_t::discarded)
             : ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace hawser::cli
