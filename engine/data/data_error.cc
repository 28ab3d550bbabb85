// Data errors: formats messages about data files.
#include "engine/data/data_error.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"

namespace hawser::data {

void fail_data(const std::string& file, int64_t offset, const std::string& problem) {
  Json details = {{"file", file}};
  if (offset >= 0) details["offset"] = offset;
  throw Error(Code::kDataInvalid, file + ": " + problem,
              details.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void fail_character(const std::string& file, int64_t offset, std::string_view rest,
                    const Vocabulary& vocabulary) {
  size_t end = 0;
  const uint32_t point = next_code_point(rest.data(), rest.size(), &end);
  if (point == kInvalidCodePoint) {
    fail_data(
        file, offset,
        fmt::format("byte 0x{:02x} at offset {} is not valid UTF-8; convert the text to UTF-8 or use the "
                    "bytes vocabulary",
                    static_cast<uint8_t>(rest[0]), offset));
  }
  fail_data(
      file, offset,
      fmt::format("character {} at offset {} is not in the vocabulary of {} characters; remove it, or make "
                  "the vocabulary from text that has it",
                  describe_character(point), offset, vocabulary.size()));
}

std::string describe_character(uint32_t code_point) {
  std::string text = fmt::format("U+{:04X}", code_point);
  const bool control = code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
  if (!control && is_scalar_value(code_point)) {
    text += " '";
    append_code_point(code_point, &text);
    text += "'";
  }
  return text;
}

std::string base_name(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace hawser::data
