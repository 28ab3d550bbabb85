// Config values: creates and compares values of a config tree and sets their origin.
#include "engine/config/value.h"

#include <algorithm>
#include <utility>

namespace hawser::config {

Value Value::of_bool(bool v) {
  Value value;
  value.kind = Kind::kBool;
  value.boolean = v;
  return value;
}

Value Value::of_int(int64_t v) {
  Value value;
  value.kind = Kind::kInt;
  value.integer = v;
  return value;
}

Value Value::of_uint(uint64_t v) {
  Value value;
  value.kind = Kind::kUint;
  value.unsigned_integer = v;
  return value;
}

Value Value::of_double(double v) {
  Value value;
  value.kind = Kind::kDouble;
  value.number = v;
  return value;
}

Value Value::of_string(std::string v) {
  Value value;
  value.kind = Kind::kString;
  value.text = std::move(v);
  return value;
}

Value Value::table(size_t field_count) {
  Value value;
  value.kind = Kind::kTable;
  value.fields.resize(field_count);
  return value;
}

bool same_content(const Value& a, const Value& b) {
  if (a.kind == Value::Kind::kTable || b.kind == Value::Kind::kTable) {
    if (is_empty(a) && is_empty(b)) return true;
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Value::Kind::kUnset:
      return true;
    case Value::Kind::kBool:
      return a.boolean == b.boolean;
    case Value::Kind::kInt:
      return a.integer == b.integer;
    case Value::Kind::kUint:
      return a.unsigned_integer == b.unsigned_integer;
    case Value::Kind::kDouble:
      return a.number == b.number;
    case Value::Kind::kString:
      return a.text == b.text;
    case Value::Kind::kArray:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same_content);
    case Value::Kind::kTable:
      return std::equal(a.fields.begin(), a.fields.end(), b.fields.begin(), b.fields.end(), same_content);
  }
  return false;
}

double as_double(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kBool:
      return value.boolean ? 1.0 : 0.0;
    case Value::Kind::kInt:
      return static_cast<double>(value.integer);
    case Value::Kind::kUint:
      return static_cast<double>(value.unsigned_integer);
    case Value::Kind::kDouble:
      return value.number;
    default:
      return 0.0;
  }
}

bool is_empty(const Value& value) {
  if (value.kind != Value::Kind::kTable) return !value.is_set();
  return std::all_of(value.fields.begin(), value.fields.end(), is_empty);
}

void set_origin(Value* value, Origin origin) {
  value->origin = origin;
  for (Value& item : value->items) set_origin(&item, origin);
  for (Value& field : value->fields) set_origin(&field, origin);
}

}  // namespace hawser::config
