// single_quoted: a function that quotes a text for POSIX shells.
#pragma once

#include <string>

namespace hawser::cli {

/// Returns the text in single quotes, as bash, zsh and sh read it.
inline std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace hawser::cli
