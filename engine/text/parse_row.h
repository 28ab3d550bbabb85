// Row parser: parses the JSON of one row, with errors that name line and column.
#pragma once

#include "engine/base/json_fwd.h"
#include "engine/text/row_file.h"

namespace hawser::text {

/// Parses a row of JSON. Throws kDataInvalid with line, column and what was expected there; with the offset
/// for bytes that are not UTF-8; for more than kMostJsonDepth levels; and for a key that an object has twice.
OrderedJson parse_row(const RawRow& row);

/// Throws kDataInvalid, with the offset, unless the row is UTF-8.
void check_utf8(const RawRow& row);

/// Returns the beginning of a value as JSON, for an error message.
std::string shown(const OrderedJson& value);

}  // namespace hawser::text
