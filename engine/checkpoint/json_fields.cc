#include "engine/checkpoint/json_fields.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint {

JsonFields::JsonFields(const Json& object, const std::string& where, std::string what)
    : object_(object), where_(where), what_(std::move(what)) {
  if (!object.is_object()) corrupt("is not an object");
}

void JsonFields::corrupt(const std::string& problem) const {
  fail(Code::kCheckpointCorrupt, "{}: {} {}", where_, what_, problem);
}

const Json& JsonFields::at(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) corrupt(fmt::format("has no {}", key));
  return *found;
}

int64_t JsonFields::integer(const char* key) const { return integer_of(at(key), key); }

std::string JsonFields::text(const char* key) const {
  if (!at(key).is_string()) corrupt(fmt::format("has a {} that is not a string", key));
  return at(key).get<std::string>();
}

std::vector<int64_t> JsonFields::integers(const char* key, size_t most) const {
  const Json& values = array_at(key);
  if (values.size() > most) corrupt(fmt::format("has a {} of {} numbers", key, values.size()));
  std::vector<int64_t> result;
  for (const Json& value : values) result.push_back(integer_of(value, key));
  return result;
}

std::string JsonFields::object(const char* key) const { return object_at(key).dump(); }

const Json& JsonFields::object_at(const char* key) const {
  if (!at(key).is_object()) corrupt(fmt::format("has a {} that is not an object", key));
  return at(key);
}

const Json& JsonFields::array_at(const char* key) const {
  if (!at(key).is_array()) corrupt(fmt::format("has a {} that is not an array", key));
  return at(key);
}

int64_t JsonFields::integer_of(const Json& value, const char* key) const {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
    corrupt(fmt::format("has the {} {}, which is not an integer from 0 to 2^63 - 1", key,
                        in_quotes(value.dump())));
  return value.get<int64_t>();
}

}  // namespace hawser::checkpoint
