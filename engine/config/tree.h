// Config tree internals: functions shared by the files of this folder, which read and write values along the
// schema and resolve JSON pointers (RFC 6901).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config_tree.h"
#include "engine/config/schema_view.h"
#include "engine/config/value.h"

namespace hawser::config {

struct ConfigTree::Impl {
  Value root;
};

constexpr size_t kMostBytes = 16 << 20;  ///< maximum size of a config, JSON or binary
constexpr size_t kMostItems = 65536;     ///< maximum length of one array
constexpr int kMostDepth = 32;

/// Reads JSON text as a value of `field` at `pointer`. Throws kConfigParse (not JSON) or kConfigInvalid (all
/// problems).
Value read_json(std::string_view text, const FieldView& field, const std::string& pointer, Origin origin);

/// Reads a FlatBuffers binary of the whole config. Throws kConfigParse (damaged) or kConfigInvalid.
Value read_binary(const void* data, size_t size, Origin origin);
std::vector<uint8_t> write_binary(const Value& root);

/// Returns the set fields of a value as JSON text, in canonical order. indent < 0: one line. Unset: "null".
std::string write_json(const Value& value, const FieldView& field, int indent = -1);

/// True if the text is valid UTF-8 without NUL, as strings in a config must be.
bool is_clean_text(std::string_view text);

/// Splits "/model/heads" into {"model", "heads"} and decodes ~0 and ~1. Returns false if it is not a JSON
/// pointer.
bool split_pointer(std::string_view pointer, std::vector<std::string>* tokens);
/// Escapes a token of a pointer: "a/b" becomes "a~1b".
std::string escape_token(std::string_view token);

/// Returns the schema field at a pointer (array elements by index or "-"). If there is none, returns null
/// and describes the problem in *wrong, with a suggestion.
const FieldView* field_at(const std::vector<std::string>& tokens, Problem* wrong);

/// Like field_at, for a pointer that the code contains: throws kInternal if there is no such field.
const FieldView* schema_at(std::string_view pointer);
/// Returns the name that configs use for an enum value of the field at `pointer`, which must exist.
template <typename Enum>
const std::string& name_at(std::string_view pointer, Enum value) {
  return name_of(*schema_at(pointer), static_cast<int64_t>(value));
}

/// Returns the value at a pointer, or null if it or something above it is not set.
const Value* find_value(const Value& root, std::string_view pointer);
/// Returns the slot for a value and creates the tables above it. The pointer must be in the schema and
/// without array indexes.
Value* make_slot(Value* root, std::string_view pointer);

/// Copies the fields set in `from` to fields of `to` that are unset, or set with the same or lower
/// precedence. Arrays are copied as a unit. Origin kRule only fills unset fields: a rule completes a config
/// and never contradicts it.
void merge(const Value& from, const FieldView& field, Value* to);

}  // namespace hawser::config
