// The JSON of one row, with errors that say line and column.
#pragma once

#include "engine/base/json_fwd.h"
#include "engine/text/row_file.h"

namespace hawser::text {

/// Levels that arrays and objects of a row may be nested: templates and the JSON library walk them recursively.
inline constexpr int64_t kMostNested = 64;

/// Parses a row of JSON. Throws kDataInvalid with line, column and what was expected there; for bytes that are not
/// UTF-8 with their offset; for more than kMostNested levels.
OrderedJson parse_row(const RawRow& row);

/// Throws kDataInvalid, with the offset, unless the row is UTF-8.
void check_utf8(const RawRow& row);

/// Whether the JSON text nests deeper than kMostNested; *at: where.
bool nests_too_deep(std::string_view json, size_t* at);

/// The beginning of a value, as JSON, for the text of an error.
std::string shown(const OrderedJson& value);

}  // namespace hawser::text
