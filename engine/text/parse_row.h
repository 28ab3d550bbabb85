// The JSON of one row, with errors that say line and column.
#pragma once

#include "engine/base/json_fwd.h"
#include "engine/text/row_file.h"

namespace hawser::text {

/// Parses a row of JSON. Throws kDataInvalid with line, column and what was expected there. Also throws it,
/// with the offset, for bytes that are not UTF-8; for more than kMostJsonDepth levels; and for a key that an
/// object has twice.
OrderedJson parse_row(const RawRow& row);

/// Throws kDataInvalid, with the offset, unless the row is UTF-8.
void check_utf8(const RawRow& row);

/// The beginning of a value, as JSON, for the text of an error.
std::string shown(const OrderedJson& value);

}  // namespace hawser::text
