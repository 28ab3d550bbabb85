#include "engine/checkpoint/hf/peft_pattern.h"

#include <regex.h>

#include <string_view>

#include "engine/base/error.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {
namespace {

[[noreturn]] void refuse(const std::string& pattern, const std::string& where) {
  fail(Code::kConfigInvalid,
       "{}: Hawser cannot read the regular expression {}; write the modules' names as a list instead", where,
       in_quotes(pattern));
}

/// The POSIX form of a class such as \d; "" if there is none. Inside brackets it stands without its own.
std::string class_of(char letter, bool inside) {
  const char* const members = letter == 'd'   ? "0-9"
                              : letter == 'w' ? "a-zA-Z0-9_"
                              : letter == 's' ? " \t"
                                              : "";
  return *members == 0 || inside ? members : "[" + std::string(members) + "]";
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// A backslash and what follows it at `at`.
std::string escaped(const std::string& pattern, size_t at, bool inside, const std::string& where) {
  if (at + 1 == pattern.size()) refuse(pattern, where);
  const char next = pattern[at + 1];
  if (const std::string known = class_of(next, inside); !known.empty()) return known;
  if (is_letter_or_digit(next)) refuse(pattern, where);
  if (!inside) return {'\\', next};
  if (next == ']' || next == '^' || next == '-')
    refuse(pattern, where);  // their place in brackets has a meaning
  return {next};
}

std::string posix_form(const std::string& pattern, const std::string& where) {
  std::string posix;
  bool inside = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = std::string_view(pattern).substr(i);
    if (rest[0] == '\\') {
      posix += escaped(pattern, i, inside, where);
      ++i;
    } else if (inside) {
      inside = rest[0] != ']';
      posix += rest[0];
    } else if (rest.starts_with("(?:")) {
      posix += '(';
      i += 2;
    } else if (rest.starts_with("(?")) {
      refuse(pattern, where);
    } else if (rest[0] == '?' && i > 0 &&
               (pattern[i - 1] == '*' || pattern[i - 1] == '+' || pattern[i - 1] == '?')) {
      continue;  // the least instead of the most: a whole match is the same
    } else {
      inside = rest[0] == '[';
      posix += rest[0];
    }
  }
  return "^(" + posix + ")$";
}

}  // namespace

struct PythonPattern::Compiled {
  regex_t regex;
  ~Compiled() { regfree(&regex); }
};

PythonPattern::PythonPattern(const std::string& pattern, const std::string& where) {
  regex_t regex;
  if (regcomp(&regex, posix_form(pattern, where).c_str(), REG_EXTENDED | REG_NOSUB) != 0)
    refuse(pattern, where);
  compiled_.reset(new Compiled{regex});
}
PythonPattern::~PythonPattern() = default;
PythonPattern::PythonPattern(PythonPattern&&) noexcept = default;

bool PythonPattern::matches_whole(const std::string& text) const {
  return regexec(&compiled_->regex, text.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace hawser::checkpoint::hf
