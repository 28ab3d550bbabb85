// See argument_checks.h. A check returns what is wrong, or nothing.
#include "bindings/cli/argument_checks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace hawser::cli {
namespace {

/// The whole of `text` as a number, without spaces and plus signs; false if it is none.
template <typename Number>
bool read(const std::string& text, Number* value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

std::string refusal(const std::string& text, const std::string& wanted) {
  return "\"" + text + "\" is not " + wanted;
}

}  // namespace

CLI::Validator whole_number(int64_t least) {
  const auto check = [least](const std::string& text) {
    int64_t value = 0;
    if (read(text, &value) && value >= least) return std::string();
    return refusal(text, "a whole number from " + std::to_string(least) + " on");
  };
  return CLI::Validator(check, "");
}

CLI::Validator seed_number() {
  const auto check = [](const std::string& text) {
    uint64_t value = 0;
    return read(text, &value) ? std::string() : refusal(text, "a whole number from 0 to 2^64 - 1");
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_from_zero() {
  const auto check = [](const std::string& text) {
    double value = 0;
    if (read(text, &value) && std::isfinite(value) && value >= 0) return std::string();
    return refusal(text, "a number from 0 on");
  };
  return CLI::Validator(check, "");
}

CLI::Validator share() {
  const auto check = [](const std::string& text) {
    double value = 0;
    return read(text, &value) && value > 0 && value <= 1 ? std::string()
                                                         : refusal(text, "a number above 0 and at most 1");
  };
  return CLI::Validator(check, "");
}

void refuse_empty_words(CLI::App* app, const std::vector<std::string>& but) {
  for (CLI::Option* option : app->get_options()) {
    const std::string name = option->get_name();
    if (std::find(but.begin(), but.end(), name) != but.end() || option->get_items_expected_max() == 0)
      continue;
    const auto check = [](const std::string& text) {
      return text.empty() ? std::string(
                                "\"\" is empty (a variable that was not set?); give it, or leave the "
                                "option out")
                          : std::string();
    };
    option->check(CLI::Validator(check, ""));
  }
  for (CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; }))
    refuse_empty_words(sub, but);
}

}  // namespace hawser::cli
