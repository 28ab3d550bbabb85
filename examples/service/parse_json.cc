#include "parse_json.h"

namespace service {
namespace {

bool nests_too_deep(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMostJsonDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

/// True if text follows a NUL byte. The parser would stop at the NUL byte and ignore this text.
bool has_text_behind_nul(std::string_view json) {
  const std::size_t at = json.find('\0');
  return at != json.npos && json.find_first_not_of('\0', at) != json.npos;
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  return nests_too_deep(text) || has_text_behind_nul(text)
             ? nlohmann::json(nlohmann::json::value_t::discarded)
             : nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace service
