#include "engine/cluster/object_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/config/suggest.h"

namespace hawser::cluster {

std::string ObjectReader::at(const std::string& key) const {
  return key.empty() ? pointer_ : pointer_ + "/" + key;
}

void ObjectReader::problem(const std::string& key, std::string message, std::string fix) {
  problems_->add(at(key), std::move(message), std::move(fix));
}

const OrderedJson* ObjectReader::field(const std::string& key) {
  mark(key);
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(key);
  if (found != object_->end()) return &*found;
  problem(key, "is missing", "add it");
  return nullptr;
}

double ObjectReader::number(const char* key, const Range& range) {
  const OrderedJson* const value = field(key);
  if (value == nullptr) return 0;
  if (!value->is_number()) {
    problem(key, fmt::format("is {}, not a number", config::quote(value->dump())), "write a number");
    return 0;
  }
  const double number = value->get<double>();
  const bool low = range.zero ? number < range.above : number <= range.above;
  if (!std::isfinite(number) || low)
    problem(key, fmt::format("is {}", number),
            fmt::format("it must be {} {}", range.zero ? "at least" : "above", range.above));
  else if (number > range.most)
    problem(key, fmt::format("is {}, above the peak of {}", number, range.most),
            "correct the peak or this number");
  else
    return number;
  return 0;
}

double ObjectReader::sourced(const char* key, const Range& range) {
  const OrderedJson* const value = field(key);
  if (value == nullptr) return 0;
  if (!value->is_object()) {
    problem(key, fmt::format("is {}", config::quote(value->dump())),
            R"(write {"value": number, "source": "where it comes from"})");
    return 0;
  }
  ObjectReader reader(value, at(key), problems_);
  const double number = reader.number("value", range);
  reader.text("source");
  reader.finish();
  return number;
}

int64_t ObjectReader::integer(const char* key) {
  const OrderedJson* const value = field(key);
  if (value == nullptr) return 0;
  constexpr int64_t kMost = int64_t{1} << 40;
  const int64_t number = value->is_number_integer() ? value->get<int64_t>() : 0;
  if (number >= 1 && number <= kMost) return number;
  problem(key, fmt::format("is {}", config::quote(value->dump())), "write an integer from 1 to 2^40");
  return 0;
}

std::string ObjectReader::text(const char* key) {
  const OrderedJson* const value = field(key);
  if (value == nullptr) return "";
  if (value->is_string() && !value->get_ref<const OrderedJson::string_t&>().empty())
    return value->get<std::string>();
  problem(key, fmt::format("is {}", config::quote(value->dump())), "write text");
  return "";
}

ObjectReader ObjectReader::object(const char* key) {
  const OrderedJson* value = field(key);
  if (value != nullptr && !value->is_object()) {
    problem(key, fmt::format("is {}, not an object", config::quote(value->dump())), "write {...}");
    value = nullptr;
  }
  return {value, at(key), problems_};
}

std::vector<ObjectReader> ObjectReader::list(const char* key, size_t least) {
  std::vector<ObjectReader> readers;
  const OrderedJson* const value = field(key);
  if (value == nullptr) return readers;
  if (!value->is_array() || value->size() < least) {
    problem(key, fmt::format("is {}", config::quote(value->dump())),
            fmt::format("write a list of at least {} objects", least));
    return readers;
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const OrderedJson& item = (*value)[i];
    const std::string pointer = fmt::format("{}/{}", at(key), i);
    if (item.is_object())
      readers.emplace_back(&item, pointer, problems_);
    else
      problems_->add(pointer, fmt::format("is {}, not an object", config::quote(item.dump())), "write {...}");
  }
  return readers;
}

std::vector<std::string> ObjectReader::keys() const {
  std::vector<std::string> keys;
  if (object_ != nullptr)
    for (const auto& [key, value] : object_->items()) keys.push_back(key);
  return keys;
}

void ObjectReader::finish() {
  for (const std::string& key : keys()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string near = config::nearest_name(key, known_);
    problem(key, "is unknown", near.empty() ? "remove it" : fmt::format("did you mean \"{}\"?", near));
  }
}

}  // namespace hawser::cluster
