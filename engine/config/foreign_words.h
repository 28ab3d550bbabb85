// What the keys of other trainers' configs are called here, where they are fields at all.
#pragma once

#include <string_view>

namespace hawser::config {

/// One wish that other programs spell in several ways. Plain renamings need no row: a field's attribute `also`
/// has them.
struct ForeignWord {
  std::string_view words;    ///< separated by spaces
  std::string_view pointer;  ///< the field that comes closest; "": there is none
  std::string_view advice;   ///< how its meaning differs, or what to do instead
};

/// Null for a word that the table does not have. ASCII case is ignored, '-' counts as '_'.
const ForeignWord* find_foreign_word(std::string_view key);

}  // namespace hawser::config
