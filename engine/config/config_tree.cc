// ConfigTree: implements the public interface of the config tree.
#include "engine/config/config_tree.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/config/effective.h"
#include "engine/config/problems.h"
#include "engine/config/rules.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

/// Parses a value from the command line: JSON, or plain text for a string field.
Value read_given(std::string_view text, const FieldView& field, const std::string& pointer) {
  const bool takes_text = field.kind == FieldKind::kString || field.kind == FieldKind::kEnum;
  const bool is_json = json_error_at(text) == 0;
  if (!is_json && !takes_text && is_clean_text(text)) {
    throw_if_any({{pointer, fmt::format("`{}` is not a JSON value", text),
                   "give a number, true, false, or another value that the schema allows"}});
  }
  if (!takes_text || is_json) return read_json(text, field, pointer, Origin::kSet);
  if (!is_clean_text(text)) {
    throw_if_any({{pointer, "the string is not UTF-8, or has a NUL character in it", "use UTF-8"}});
  }
  return read_json(Json(std::string(text)).dump(), field, pointer, Origin::kSet);
}

constexpr const char* kWarmup = "/schedule/warmup_steps";

/// Returns a copy in which a preset's warm-up has its effective value: no format can say that it gives way to
/// the length of the run.
Value with_fixed_warmup(const Value& root) {
  Value result = root;
  const Value* const warmup = find_value(root, kWarmup);
  if (warmup != nullptr && warmup->origin == Origin::kPreset)
    *make_slot(&result, kWarmup) = *find_value(Effective(root).root(), kWarmup);
  return result;
}

/// Walks to the value at `tokens`, creating tables and at most one new array element.
Value* walk(Value* value, const std::vector<std::string>& tokens, const std::string& pointer) {
  const FieldView* field = &schema_field();
  for (const std::string& token : tokens) {
    if (field->kind == FieldKind::kTable) {
      if (!value->is_set()) *value = Value::table(field->table->fields.size());
      field = field->table->find(token);
      value = &value->fields[static_cast<size_t>(field->id)];
      continue;
    }
    value->kind = Value::Kind::kArray;
    value->origin = Origin::kSet;
    const size_t size = value->items.size();
    const size_t index = token == "-" ? size : static_cast<size_t>(std::stoull(token));
    if (index > size || index >= kMostItems) {
      throw_if_any(
          {{pointer, fmt::format("the array has {} elements, so there is no element {}", size, token),
            fmt::format("the next new element is {}", size)}});
    }
    if (index == size) value->items.emplace_back();
    value = &value->items[index];
    field = field->element.get();
  }
  return value;
}

}  // namespace

ConfigTree::ConfigTree() : impl_(std::make_unique<Impl>()) {
  impl_->root = Value::table(schema().fields.size());
}
ConfigTree::ConfigTree(const ConfigTree& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
ConfigTree& ConfigTree::operator=(const ConfigTree& other) {
  if (this != &other) impl_ = std::make_unique<Impl>(*other.impl_);
  return *this;
}
ConfigTree::ConfigTree(ConfigTree&&) noexcept = default;
ConfigTree& ConfigTree::operator=(ConfigTree&&) noexcept = default;
ConfigTree::~ConfigTree() = default;

ConfigTree ConfigTree::from_json(std::string_view text) {
  ConfigTree tree;
  tree.impl_->root = read_json(text, schema_field(), "", Origin::kFile);
  return tree;
}

ConfigTree ConfigTree::from_binary(const void* data, size_t size) {
  ConfigTree tree;
  tree.impl_->root = read_binary(data, size, Origin::kFile);
  return tree;
}

ConfigTree ConfigTree::from_preset(std::string_view name) {
  ConfigTree tree = from_json(preset_json(name));
  Value* const warmup = make_slot(&tree.impl_->root, kWarmup);
  if (warmup->is_set()) warmup->origin = Origin::kPreset;
  return tree;
}

void ConfigTree::set(std::string_view pointer, std::string_view json_value) {
  std::vector<std::string> tokens;
  const std::string text(pointer);
  if (!split_pointer(pointer, &tokens)) {
    throw_if_any({{text, "not a JSON pointer", "write it as /section/field, such as /model/layers"}});
  }
  Problem wrong;
  const FieldView* field = field_at(tokens, &wrong);
  if (field == nullptr) throw_if_any({wrong});
  Value value = read_given(json_value, *field, text);
  auto changed = std::make_unique<Impl>(*impl_);  // a failure below must leave *this unchanged
  *walk(&changed->root, tokens, text) = std::move(value);
  for (const Alternative& pair : alternatives()) {
    if (pointer == pair.pointer) *make_slot(&changed->root, pair.other) = Value();
    if (pointer == pair.other) *make_slot(&changed->root, pair.pointer) = Value();
  }
  impl_ = std::move(changed);
}

void ConfigTree::overlay(std::string_view json_text, Origin origin) {
  const Value value = read_json(json_text, schema_field(), "", origin);
  merge(value, schema_field(), &impl_->root);
}

bool ConfigTree::get(std::string_view pointer, std::string* json_value) const {
  std::vector<std::string> tokens;
  Problem wrong;
  const FieldView* field = split_pointer(pointer, &tokens) ? field_at(tokens, &wrong) : nullptr;
  if (field == nullptr) return false;
  const Effective effective(impl_->root);
  const Value* value = find_value(effective.root(), pointer);
  if (value == nullptr || is_empty(*value)) return false;
  if (json_value != nullptr) *json_value = write_json(*value, *field);
  return true;
}

std::string ConfigTree::to_json() const {
  return write_json(with_fixed_warmup(impl_->root), schema_field(), 2);
}

std::string ConfigTree::to_json_without_preset() const {
  ConfigTree tree(*this);
  const Value* name = find_value(impl_->root, "/preset");
  if (name != nullptr) tree.overlay(preset_json(name->text), Origin::kPreset);
  *make_slot(&tree.impl_->root, "/preset") = Value();
  return tree.to_json();
}

std::vector<uint8_t> ConfigTree::to_binary() const { return write_binary(with_fixed_warmup(impl_->root)); }

std::vector<uint8_t> binary_schema() { return {schema_bytes(), schema_bytes() + schema_size()}; }

}  // namespace hawser::config
