// JsonFields: typed access to the fields of a JSON object from a file. A missing field, or one of another
// type, is damage; the error names the file, the object and the field.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json.h"

namespace hawser::checkpoint {

/// Borrows its object and `where`, so use it only while parsing.
class JsonFields {
 public:
  /// `where`: the file; `what`: the object in the file. Both are for messages.
  JsonFields(const Json& object, const std::string& where, std::string what);
  [[noreturn]] void corrupt(const std::string& problem) const;  ///< throws kCheckpointCorrupt

  bool has(const char* key) const { return object_.contains(key); }
  const Json& at(const char* key) const;
  int64_t integer(const char* key) const;  ///< a natural number below 2^63
  std::string text(const char* key) const;
  /// Returns an array of natural numbers, at most `most`.
  std::vector<int64_t> integers(const char* key, size_t most) const;
  std::string object(const char* key) const;     ///< the object's JSON text
  const Json& object_at(const char* key) const;  ///< the object itself
  const Json& array_at(const char* key) const;

 private:
  int64_t integer_of(const Json& value, const char* key) const;
  const Json& object_;
  const std::string& where_;
  std::string what_;
};

}  // namespace hawser::checkpoint
