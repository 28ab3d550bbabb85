#include "engine/checkpoint/json_text.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "engine/base/json.h"
#include "engine/base/json_end.h"
#include "engine/base/utf8.h"

namespace hawser::checkpoint {
namespace {

/// A SAX handler that builds nothing and throws at the first fault.
class Checker : public nlohmann::json_sax<Json> {
 public:
  Checker(const std::string& where, Code code, int max_depth)
      : where_(where), code_(code), max_depth_(max_depth) {}

  int64_t values() const { return values_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    if (keys_.empty()) value();
    return open();
  }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second)
      fail(code_, "{}: the key {} appears twice", where_, in_quotes(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(code_, "{} is not valid JSON: error at byte {}", where_, position);
  }

 private:
  bool value() {
    if (keys_.empty()) fail(code_, "{} is not a JSON object", where_);
    return count();
  }
  bool open() {
    if (static_cast<int>(keys_.size()) >= max_depth_)
      fail(code_, "{}: JSON is nested deeper than {} levels", where_, max_depth_);
    keys_.emplace_back();
    return count();
  }
  bool count() {
    ++values_;
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const std::string& where_;
  Code code_;
  int max_depth_;
  int64_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // keys of each open level
};

}  // namespace

int64_t check_json_object(std::string_view text, const std::string& where, Code code, int max_depth) {
  if (const size_t nul = early_end_of_json(text); nul != text.npos)
    fail(code, "{} is not valid JSON: byte {} is NUL", where, nul + 1);
  Checker checker(where, code, max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &checker)) fail(code, "{} is not valid JSON", where);
  return checker.values();
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string result = "'";
  for (const char c : cut_between_characters(text, kMost))
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  result += text.size() > kMost ? "...'" : "'";
  return result;
}

}  // namespace hawser::checkpoint
