// Config tree: looks up JSON pointers in the tree and merges one config into another.
#include "engine/config/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/base/error.h"
#include "engine/config/suggest.h"

namespace hawser::config {
namespace {

/// Parses the index of an array element. "-" is the index after the last element and gives SIZE_MAX. Returns
/// false if the token is not an index.
bool parse_index(std::string_view token, size_t* index) {
  if (token == "-") {
    *index = SIZE_MAX;
    return true;
  }
  if (token.empty() || (token.size() > 1 && token[0] == '0')) return false;
  const auto result = std::from_chars(token.data(), token.data() + token.size(), *index);
  return result.ec == std::errc() && result.ptr == token.data() + token.size();
}

}  // namespace

bool split_pointer(std::string_view pointer, std::vector<std::string>* tokens) {
  tokens->clear();
  if (pointer.empty()) return true;
  if (pointer[0] != '/') return false;
  for (size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens->emplace_back();
    } else if (pointer[i] != '~') {
      tokens->back() += pointer[i];
    } else {
      if (i + 1 == pointer.size() || (pointer[i + 1] != '0' && pointer[i + 1] != '1')) return false;
      tokens->back() += pointer[++i] == '0' ? '~' : '/';
    }
  }
  return true;
}

std::string escape_token(std::string_view token) {
  std::string text;
  for (const char c : token) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += c;
    }
  }
  return text;
}

const FieldView* field_at(const std::vector<std::string>& tokens, Problem* wrong) {
  const FieldView* field = &schema_field();
  std::string pointer;
  for (const std::string& token : tokens) {
    const std::string here = pointer + "/" + escape_token(token);
    if (field->kind == FieldKind::kTable) {
      const FieldView* child = field->table->find(token);
      if (child == nullptr) {
        *wrong = {here, fmt::format("there is no such field"), suggest_key(*field->table, pointer, token)};
        return nullptr;
      }
      field = child;
    } else if (field->kind == FieldKind::kArray) {
      size_t index = 0;
      if (!parse_index(token, &index)) {
        *wrong = {here, "not the index of an array element",
                  fmt::format("use a number from 0, or - for a new element: {}/0", pointer)};
        return nullptr;
      }
      field = field->element.get();
    } else {
      *wrong = {here, fmt::format("{} has no fields: it is of type {}", pointer, kind_name(*field)),
                fmt::format("use {}", pointer)};
      return nullptr;
    }
    pointer = here;
  }
  return field;
}

const FieldView* schema_at(std::string_view pointer) {
  std::vector<std::string> tokens;
  Problem wrong;
  const FieldView* field = split_pointer(pointer, &tokens) ? field_at(tokens, &wrong) : nullptr;
  if (field == nullptr)
    fail(Code::kInternal, "the code reads {}, which the schema of configs does not have", pointer);
  return field;
}

const Value* find_value(const Value& root, std::string_view pointer) {
  std::vector<std::string> tokens;
  if (!split_pointer(pointer, &tokens)) return nullptr;
  const FieldView* field = &schema_field();
  const Value* value = &root;
  for (const std::string& token : tokens) {
    if (value->kind == Value::Kind::kTable) {
      const FieldView* child = field->table->find(token);
      if (child == nullptr) return nullptr;
      value = &value->fields[static_cast<size_t>(child->id)];
      field = child;
    } else if (value->kind == Value::Kind::kArray) {
      size_t index = 0;
      if (!parse_index(token, &index) || index >= value->items.size()) return nullptr;
      value = &value->items[index];
      field = field->element.get();
    } else {
      return nullptr;
    }
  }
  return value->is_set() ? value : nullptr;
}

Value* make_slot(Value* root, std::string_view pointer) {
  std::vector<std::string> tokens;
  HWS_CHECK(split_pointer(pointer, &tokens));
  const FieldView* field = &schema_field();
  Value* value = root;
  for (const std::string& token : tokens) {
    HWS_CHECK(field->kind == FieldKind::kTable);
    if (!value->is_set()) *value = Value::table(field->table->fields.size());
    field = field->table->find(token);
    HWS_CHECK(field != nullptr);
    value = &value->fields[static_cast<size_t>(field->id)];
  }
  return value;
}

void merge(const Value& from, const FieldView& field, Value* to) {
  if (!from.is_set()) return;
  if (field.kind != FieldKind::kTable) {
    const bool fills = !to->is_set();
    const bool wins = from.origin != Origin::kRule && to->origin <= from.origin;
    if (fills || wins) *to = from;
    return;
  }
  if (!to->is_set()) *to = Value::table(field.table->fields.size());
  for (const FieldView& child : field.table->fields) {
    const size_t id = static_cast<size_t>(child.id);
    merge(from.fields[id], child, &to->fields[id]);
  }
}

}  // namespace hawser::config
