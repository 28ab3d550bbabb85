#include "engine/checkpoint/hf/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {

struct ConfigFields::Impl {
  Json json;
  std::string pointer;  // JSON pointer of the object itself
  std::set<std::string> used;
  std::shared_ptr<std::vector<ConfigProblem>> problems = std::make_shared<std::vector<ConfigProblem>>();

  /// Returns the value if it is present and not null; marks the key as understood.
  const Json* take(const std::string& key) {
    used.insert(key);
    const auto at = json.find(key);
    return at == json.end() || at->is_null() ? nullptr : &*at;
  }
};

ConfigFields::ConfigFields(std::string_view text) : impl_(std::make_unique<Impl>()) {
  check_json_object(text, "config.json", Code::kConfigParse, 32);
  impl_->json = parse_json<Json>(text);
}

ConfigFields::ConfigFields(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ConfigFields::ConfigFields(ConfigFields&&) noexcept = default;
ConfigFields::~ConfigFields() = default;

bool ConfigFields::has(const std::string& key) const { return impl_->json.contains(key); }

bool ConfigFields::is_null(const std::string& key) const { return has(key) && impl_->json.at(key).is_null(); }

bool ConfigFields::is_object(const std::string& key) const {
  return has(key) && impl_->json.at(key).is_object();
}

void ConfigFields::accept(const std::string& key) { impl_->used.insert(key); }

int64_t ConfigFields::integer(const std::string& key, int64_t fallback, int64_t minimum, int64_t maximum) {
  const Json* value = impl_->take(key);
  if (value == nullptr) return fallback;
  if (value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
    const int64_t number = value->get<int64_t>();
    if (number >= minimum && number <= maximum) return number;
  }
  problem(key,
          fmt::format("is {}, but an integer from {} to {} is needed", value_text(key), minimum, maximum));
  return fallback;
}

double ConfigFields::number(const std::string& key, double fallback, double minimum, double maximum) {
  const Json* value = impl_->take(key);
  if (value == nullptr) return fallback;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= minimum && number <= maximum) return number;
  }
  problem(key, fmt::format("is {}, but a number from {} to {} is needed", value_text(key), minimum, maximum));
  return fallback;
}

bool ConfigFields::flag(const std::string& key, bool fallback) {
  const Json* value = impl_->take(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  problem(key, fmt::format("is {}, but true or false is needed", value_text(key)));
  return fallback;
}

std::string ConfigFields::text(const std::string& key, const std::string& fallback) {
  const Json* value = impl_->take(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  problem(key, fmt::format("is {}, but a string is needed", value_text(key)));
  return fallback;
}

std::vector<std::string> ConfigFields::texts(const std::string& key) {
  const Json* value = impl_->take(key);
  if (value == nullptr) return {};
  std::vector<std::string> result;
  bool all_strings = value->is_array();
  if (all_strings)
    for (const Json& element : *value) {
      all_strings = all_strings && element.is_string();
      if (element.is_string()) result.push_back(element.get<std::string>());
    }
  if (!all_strings) problem(key, fmt::format("is {}, but an array of strings is needed", value_text(key)));
  return result;
}

std::vector<int64_t> ConfigFields::integers(const std::string& key) {
  const Json* value = impl_->take(key);
  if (value == nullptr) return {};
  std::vector<int64_t> result;
  bool all_whole = value->is_array();
  for (const Json& element : all_whole ? *value : Json::array()) {
    all_whole = all_whole && element.is_number_integer();
    if (element.is_number_integer()) result.push_back(element.get<int64_t>());
  }
  if (!all_whole) problem(key, fmt::format("is {}, but an array of integers is needed", value_text(key)));
  return result;
}

ConfigFields ConfigFields::object(const std::string& key) {
  const Json* value = impl_->take(key);
  auto inner = std::make_unique<Impl>();
  inner->json = Json::object();
  inner->pointer = impl_->pointer + "/" + key;
  inner->problems = impl_->problems;
  if (value != nullptr && value->is_object()) inner->json = *value;
  if (value != nullptr && !value->is_object())
    problem(key, fmt::format("is {}, but an object is needed", value_text(key)));
  return ConfigFields(std::move(inner));
}

std::vector<std::string> ConfigFields::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : impl_->json.items()) result.push_back(key);
  return result;
}

std::vector<std::string> ConfigFields::unknown() const {
  std::vector<std::string> result;
  for (const std::string& key : keys())
    if (impl_->used.count(key) == 0) result.push_back(key);
  return result;
}

std::string ConfigFields::value_text(const std::string& key) const {
  std::string text = has(key) ? impl_->json.at(key).dump() : "absent";
  if (text.size() > 80) text = std::string(cut_between_characters(text, 77)) + "...";
  return text;
}

bool ConfigFields::same_value(const std::string& key, const ConfigFields& other,
                              const std::string& other_key) const {
  return has(key) && other.has(other_key) && impl_->json.at(key) == other.impl_->json.at(other_key);
}

bool ConfigFields::includes(const std::string& key, const std::string& item) const {
  if (!has(key) || !has(item)) return false;
  const Json &value = impl_->json.at(key), &wanted = impl_->json.at(item);
  if (!value.is_array()) return value == wanted;
  return std::find(value.begin(), value.end(), wanted) != value.end();
}

void ConfigFields::require(const std::string& key, int64_t value, const std::string& other_key) {
  if (integer(key, value) == value) return;
  problem(key, fmt::format("is {}, but {} is {}; remove the wrong one", value_text(key), other_key, value));
}

void ConfigFields::problem(const std::string& key, const std::string& message) {
  impl_->problems->push_back({impl_->pointer + "/" + key, message});
}

const std::vector<ConfigProblem>& ConfigFields::problems() const { return *impl_->problems; }

}  // namespace hawser::checkpoint::hf
