#include "engine/text/parse_row.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"

namespace hawser::text {
namespace {

/// Line and column of byte `at` of the row. `where` ends with the row's line.
[[noreturn]] void fail_at(const RawRow& row, size_t at, const std::string& problem) {
  std::string where = row.where;
  int64_t column = row.column + static_cast<int64_t>(at), line = 0;
  const size_t lines = static_cast<size_t>(
      std::count(row.text.begin(), row.text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  const size_t colon = where.rfind(':');
  if (lines > 0 && colon != std::string::npos) {  // of an array, whose rows may have many lines
    line = std::stoll(where.substr(colon + 1)) + static_cast<int64_t>(lines);
    column = static_cast<int64_t>(at - row.text.rfind('\n', at - 1));
    where = fmt::format("{}:{}", where.substr(0, colon), line);
  }
  throw Error(Code::kDataInvalid, fmt::format("{}:{}: {}", where, column, problem),
              OrderedJson{{"file", where.substr(0, where.rfind(':'))},
                          {"offset", row.offset + static_cast<int64_t>(at)}}
                  .dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

/// What the parser expected, without the place, which it counts in its own way.
std::string expected(const OrderedJson::parse_error& error) {
  const std::string what = error.what();
  const size_t column = what.find("column");
  const size_t colon = what.find(": ", column == std::string::npos ? 0 : column);
  return colon == std::string::npos ? what : what.substr(colon + 2);
}

}  // namespace

void check_utf8(const RawRow& row) {
  for (size_t at = 0; at < row.text.size();) {
    if (next_code_point(row.text.data(), row.text.size(), &at) != kInvalidCodePoint) continue;
    fail_at(row, at,
            fmt::format("byte 0x{:02x} at offset {} of the file is not UTF-8; convert the file, such as with "
                        "iconv -t UTF-8",
                        static_cast<uint8_t>(row.text[at]), row.offset + static_cast<int64_t>(at)));
  }
}

bool nests_too_deep(std::string_view json, size_t* at) {
  int64_t depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      *at = i;
      if (++depth > kMostNested) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

OrderedJson parse_row(const RawRow& row) {
  check_utf8(row);
  size_t deep = 0;
  if (nests_too_deep(row.text, &deep))
    fail_at(row, deep, fmt::format("values are nested in more than {} levels", kMostNested));
  try {
    return OrderedJson::parse(row.text);
  } catch (const OrderedJson::parse_error& error) {
    fail_at(row, std::min(row.text.size(), error.byte > 0 ? error.byte - 1 : 0),
            fmt::format("the row is not JSON: {}", expected(error)));
  } catch (const OrderedJson::out_of_range& error) {  // a number beyond the largest double
    const std::string what = error.what();            // "[json.exception...] number overflow parsing '1e999'"
    fail_at(row, 0,
            fmt::format("the row has a number that no double holds: {}", what.substr(what.find("] ") + 2)));
  }
}

std::string shown(const OrderedJson& value) {
  constexpr size_t kMost = 40;
  std::string json = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  if (json.size() <= kMost) return json;
  size_t end = kMost;
  while ((json[end] & 0xC0) == 0x80) --end;
  return json.substr(0, end) + "...";
}

}  // namespace hawser::text
