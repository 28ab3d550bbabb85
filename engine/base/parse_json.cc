// JSON parser of the library: checks the depth of a text before it builds any value.
#include <fmt/format.h>

#include "engine/base/json.h"
#include "engine/base/json_end.h"

namespace hawser {
namespace {

/// Accepts every value; stores the offset at which the text stops being JSON.
class SyntaxCheck : public nlohmann::json_sax<Json> {
 public:
  size_t error_at() const { return error_at_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_at_ = position;
    return false;
  }

 private:
  size_t error_at_ = 0;
};

}  // namespace

bool nests_too_deep(std::string_view json, size_t* at) {
  int depth = 0;
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
      if (++depth > kMostJsonDepth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

template <typename J>
J parse_json(std::string_view text) {
  if (size_t at = 0; nests_too_deep(text, &at))
    throw Json::parse_error::create(
        101, at + 1, fmt::format("byte {}: values are nested in more than {} levels", at + 1, kMostJsonDepth),
        nullptr);
  if (const size_t at = early_end_of_json(text); at != text.npos)
    throw Json::parse_error::create(
        101, at + 1, fmt::format("byte {}: a NUL byte, which JSON does not have", at + 1), nullptr);
  return J::parse(text);
}

template <typename J>
J parse_json_or_discard(std::string_view text) {
  size_t at = 0;
  return nests_too_deep(text, &at) || early_end_of_json(text) != text.npos
             ? J(J::value_t::discarded)
             : J::parse(text, nullptr, /*allow_exceptions=*/false);
}

template Json parse_json(std::string_view);
template OrderedJson parse_json(std::string_view);
template Json parse_json_or_discard(std::string_view);
template OrderedJson parse_json_or_discard(std::string_view);

size_t json_error_at(std::string_view text) {
  SyntaxCheck check;
  if (!Json::sax_parse(text, &check)) return std::max<size_t>(check.error_at(), 1);
  return early_end_of_json(text) + 1;  // npos + 1 is 0
}

}  // namespace hawser
