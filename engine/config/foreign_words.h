// Foreign keys: maps keys of other trainers' configs to Hawser's fields.
#pragma once

#include <optional>
#include <string_view>

namespace hawser::config {

/// One setting that other programs spell in several ways. A plain renaming needs no row here: the field's
/// attribute `also` lists it.
struct ForeignWord {
  std::string_view words;    ///< separated by spaces
  std::string_view pointer;  ///< the closest field; "" if there is none
  std::string_view advice;   ///< how its meaning differs, or what to do instead
};

/// Returns nothing if the table does not have the word. ASCII case is ignored and '-' equals '_'.
std::optional<ForeignWord> find_foreign_word(std::string_view key);

}  // namespace hawser::config
