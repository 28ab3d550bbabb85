// Value: one node of a config tree. A table has one slot per field of the schema, so a position in `fields`
// is a field id, and the order of ids is the canonical order. Leaves and arrays store their origin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/config_tree.h"

namespace hawser::config {

struct Value {
  enum class Kind : uint8_t { kUnset, kBool, kInt, kUint, kDouble, kString, kArray, kTable };

  Kind kind = Kind::kUnset;
  Origin origin = Origin::kDefault;
  const char* rule = nullptr;  ///< rule that derived the value; static storage
  bool boolean = false;
  int64_t integer = 0;
  uint64_t unsigned_integer = 0;
  double number = 0.0;
  std::string text;  ///< kString; an enum is its name
  std::vector<Value> items;
  std::vector<Value> fields;  ///< indexed by field id

  bool is_set() const { return kind != Kind::kUnset; }

  static Value of_bool(bool v);
  static Value of_int(int64_t v);
  static Value of_uint(uint64_t v);
  static Value of_double(double v);
  static Value of_string(std::string v);
  static Value table(size_t field_count);
};

/// True if the contents are equal, ignoring origins and rules. Unset fields equal unset fields.
bool same_content(const Value& a, const Value& b);

/// Returns the value as a number (bool, int, uint, double); 0 for other kinds.
double as_double(const Value& value);

/// True if nothing at or below this value is set.
bool is_empty(const Value& value);

/// Sets the origin of every set leaf and array below.
void set_origin(Value* value, Origin origin);

}  // namespace hawser::config
