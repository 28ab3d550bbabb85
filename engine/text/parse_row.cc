#include "engine/text/parse_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"

namespace hawser::text {
namespace {

/// Throws with line and column of byte `at` of the row. `where` ends with the row's line.
[[noreturn]] void fail_at(const RawRow& row, size_t at, const std::string& problem) {
  std::string where = row.where;
  int64_t column = row.column + static_cast<int64_t>(at), line = 0;
  const size_t lines = static_cast<size_t>(
      std::count(row.text.begin(), row.text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  const size_t colon = where.rfind(':');
  if (lines > 0 && colon != std::string::npos) {  // a row of a JSON array may have many lines
    line = std::stoll(where.substr(colon + 1)) + static_cast<int64_t>(lines);
    column = static_cast<int64_t>(at - row.text.rfind('\n', at - 1));
    where = fmt::format("{}:{}", where.substr(0, colon), line);
  }
  throw Error(Code::kDataInvalid, fmt::format("{}:{}: {}", where, column, problem),
              OrderedJson{{"file", where.substr(0, where.rfind(':'))},
                          {"offset", row.offset + static_cast<int64_t>(at)}}
                  .dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

/// Returns what the parser expected, without the position, which the parser counts differently.
std::string expected(const OrderedJson::parse_error& error) {
  const std::string what = error.what();
  const size_t column = what.find("column");
  const size_t colon = what.find(": ", column == std::string::npos ? 0 : column);
  return colon == std::string::npos ? what : what.substr(colon + 2);
}

/// Walks through a JSON text and calls key(offset, raw) for each key of an object; `raw` includes the quotes.
template <typename Begin, typename Key, typename End>
void each_key(std::string_view json, Begin begin, Key key, End end) {
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '{') begin();
    if (c == '}') end();
    if (c != '"') continue;
    const size_t first = at;
    for (++at; json[at] != '"'; ++at) at += json[at] == '\\' ? 1 : 0;
    const size_t next = json.find_first_not_of(" \t\r\n", at + 1);
    if (next != json.npos && json[next] == ':') key(first, json.substr(first, at + 1 - first));
  }
}

/// Fails if an object repeats a key, because one value would hide the other.
void check_keys(const RawRow& row) {
  std::vector<std::set<std::string>> objects;  // the keys of each open object
  each_key(
      row.text, [&] { objects.emplace_back(); },
      [&](size_t at, std::string_view raw) {
        const std::string name = parse_json<OrderedJson>(raw).get<std::string>();  // decodes its escapes
        if (!objects.back().insert(name).second)
          fail_at(row, at,
                  fmt::format("the key {} appears twice in an object; remove one of them", shown(name)));
      },
      [&] { objects.pop_back(); });
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

OrderedJson parse_row(const RawRow& row) {
  check_utf8(row);
  size_t deep = 0;
  if (nests_too_deep(row.text, &deep))
    fail_at(row, deep, fmt::format("values are nested in more than {} levels", kMostJsonDepth));
  try {
    OrderedJson json = parse_json<OrderedJson>(row.text);
    check_keys(row);
    return json;
  } catch (const OrderedJson::parse_error& error) {
    fail_at(row, std::min(row.text.size(), error.byte > 0 ? error.byte - 1 : 0),
            fmt::format("the row is not JSON: {}", expected(error)));
  } catch (const OrderedJson::out_of_range& error) {  // the row contains a number beyond the largest double
    const std::string what = error.what();            // "[json.exception...] number overflow parsing '1e999'"
    fail_at(
        row, 0,
        fmt::format("the row has a number that does not fit a double: {}", what.substr(what.find("] ") + 2)));
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
