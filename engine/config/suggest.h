// Suggestions: finds the known name nearest to a mistyped one, for "did you mean".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/schema_view.h"

namespace hawser::config {

/// Returns the fewest insertions, deletions, substitutions (Levenshtein, 1966) and swaps of neighbours
/// (Damerau, 1964) that turn a into b. ASCII case is ignored.
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the nearest of `names` if it is close enough to be a typing error; else "".
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

/// Returns advice for the unknown `key` of `table` (at `pointer`): it may be misspelt, another program's name
/// (see foreign_words.h), or belong to another section. Never empty.
std::string suggest_key(const TableView& table, std::string_view pointer, std::string_view key);

}  // namespace hawser::config
