// Embedded texts: JSON files that the build puts into the library (embed.cmake), by name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::config {

struct EmbeddedText {
  const char* name;
  const char* text;
};

/// Borrows an array that is sorted by name.
class EmbeddedTexts {
 public:
  /// `what`: one of them, for messages.
  EmbeddedTexts(const char* what, const EmbeddedText* texts, size_t count)
      : what_(what), texts_(texts), count_(count) {}

  std::vector<std::string> names() const;
  /// Returns "" if there is none.
  std::string_view find(std::string_view name) const;
  /// Throws kNotFound, with the nearest name or all names.
  std::string_view at(std::string_view name) const;

 private:
  const char* what_;
  const EmbeddedText* texts_;
  size_t count_;
};

}  // namespace hawser::config
