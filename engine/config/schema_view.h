// Schema view: the config schema as plain structs, read once from the embedded binary schema
// (capi/schema/config.fbs). Every walker of the config (JSON, FlatBuffers binary, ranges, explain, JSON
// Schema) uses these structs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/value.h"

namespace hawser::config {

enum class FieldKind : uint8_t { kBool, kInt, kUint, kDouble, kString, kEnum, kArray, kTable };

struct EnumView {
  struct Item {
    std::string name;
    int64_t value;
    std::string doc;
  };
  std::string name;
  std::vector<Item> items;

  const Item* find(std::string_view item_name) const;
  const Item* find(int64_t value) const;
};

struct TableView;

struct FieldView {
  std::string name, doc, unit;
  std::vector<std::string> also;     ///< its names in other programs
  std::vector<std::string> choices;  ///< valid values of a string; empty: any
  int id = 0;
  uint16_t vtable_offset = 0;
  FieldKind kind = FieldKind::kBool;
  const EnumView* enumeration = nullptr;     ///< kEnum
  const TableView* table = nullptr;          ///< kTable
  std::shared_ptr<const FieldView> element;  ///< kArray: its elements (with their limits)
  std::optional<double> minimum, maximum;    ///< inclusive
  std::optional<double> above, below;        ///< exclusive
  Value default_value;                       ///< kUnset if there is none
};

struct TableView {
  std::string name, doc;
  std::vector<FieldView> fields;  ///< position = id

  const FieldView* find(std::string_view field_name) const;
};

/// The schema. Created at the first call, immutable, lives as long as the process. Any thread.
const TableView& schema();
/// The whole config as one field of kind kTable.
const FieldView& schema_field();

/// The embedded binary schema.
const uint8_t* schema_bytes();
size_t schema_size();

/// Returns the field's type for messages: "integer", "number", "string", "true or false", "object", ...
std::string_view kind_name(const FieldView& field);

/// Returns the names of an enum or the choices of a string, as "a, b or c".
std::string valid_names(const FieldView& field);
/// The number of a valid name: as the enum says, or its position among a string's choices.
int64_t number_of(const FieldView& field, std::string_view name);
/// The name with that number, which must be valid.
const std::string& name_of(const FieldView& field, int64_t number);

}  // namespace hawser::config
