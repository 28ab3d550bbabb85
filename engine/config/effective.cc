// Effective: merges the preset into a config, checks ranges and derives values.
#include "engine/config/effective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/config/presets.h"
#include "engine/config/problems.h"
#include "engine/config/rules.h"
#include "engine/config/suggest.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

struct RangeFault {
  std::string message, fix;
};

/// True if the number is within the limits of its field; otherwise describes the violated limit in *fault.
bool in_range(const FieldView& field, double x, const std::string& text, RangeFault* fault) {
  const std::string unit = field.unit.empty() ? "" : " " + field.unit;
  if (field.minimum && x < *field.minimum) {
    *fault = {fmt::format("{} is less than the minimum {}{}", text, *field.minimum, unit),
              fmt::format("use {} or more", *field.minimum)};
  } else if (field.maximum && x > *field.maximum) {
    *fault = {fmt::format("{} is more than the maximum {}{}", text, *field.maximum, unit),
              fmt::format("use {} or less", *field.maximum)};
  } else if (field.above && !(x > *field.above)) {
    *fault = {fmt::format("{} is not greater than {}", text, *field.above),
              fmt::format("use a number above {}", *field.above)};
  } else if (field.below && !(x < *field.below)) {
    *fault = {fmt::format("{} is not less than {}", text, *field.below),
              fmt::format("use a number below {}", *field.below)};
  } else {
    return true;
  }
  return false;
}

}  // namespace

Effective::Effective(const Value& raw) : root_(raw) {
  if (root_.kind != Value::Kind::kTable) root_ = Value::table(schema().fields.size());
  apply_preset();
  check_ranges(root_, schema_field(), "", false);
  derive();
  check_ranges(root_, schema_field(), "", true);
}

void Effective::apply_preset() {
  const Value* name = find_value(root_, "/preset");
  if (name == nullptr) return;
  const std::string_view text = find_preset(name->text);
  if (text.empty()) {
    bad_.insert("/preset");
    const std::string near = nearest_name(name->text, preset_names());
    problems_.push_back({"/preset", "there is no preset " + quote(name->text),
                         near.empty() ? "use one of: " + fmt::format("{}", fmt::join(preset_names(), ", "))
                                      : fmt::format("did you mean \"{}\"?", near)});
    return;
  }
  merge(read_json(text, schema_field(), "", Origin::kPreset), schema_field(), &root_);
}

void Effective::check_ranges(const Value& value, const FieldView& field, const std::string& pointer,
                             bool derived) {
  if (!value.is_set()) return;
  if (field.kind == FieldKind::kTable) {
    for (const FieldView& child : field.table->fields) {
      check_ranges(value.fields[static_cast<size_t>(child.id)], child, pointer + "/" + child.name, derived);
    }
    return;
  }
  if (field.kind == FieldKind::kArray) {
    for (size_t i = 0; i < value.items.size(); ++i) {
      check_ranges(value.items[i], *field.element, fmt::format("{}/{}", pointer, i), derived);
    }
    return;
  }
  if ((value.origin == Origin::kRule && value.rule != nullptr) != derived) return;
  RangeFault fault;
  if (value.kind == Value::Kind::kString) {
    if (field.choices.empty() || value.text.empty()) return;
    if (std::find(field.choices.begin(), field.choices.end(), value.text) != field.choices.end()) return;
    const std::string near = nearest_name(value.text, field.choices);
    fault = {fmt::format("{} is not one of {}", quote(value.text), valid_names(field)),
             near.empty() ? "use one of them" : fmt::format("did you mean \"{}\"?", near)};
  } else if (in_range(field, as_double(value), write_json(value, field), &fault)) {
    return;
  }
  if (derived) fault.message += fmt::format(" (it follows from the rule: {})", value.rule);
  bad_.insert(pointer);
  (derived ? derived_problems_ : problems_).push_back({pointer, fault.message, fault.fix});
}

void Effective::derive() {
  for (const Derivation& rule : derivations()) {
    const bool ready = std::all_of(rule.reads.begin(), rule.reads.end(),
                                   [&](const char* pointer) { return pointer == nullptr || has(pointer); });
    if (!ready || (!rule.replaces && is_given(rule.target))) continue;
    Value value = rule.value(*this);
    if (!value.is_set()) continue;
    set_origin(&value, Origin::kRule);
    value.rule = rule.rule;
    *make_slot(&root_, rule.target) = std::move(value);
  }
}

const Value* Effective::find(std::string_view pointer) const {
  const FieldView* field = schema_at(pointer);
  if (bad_.find(pointer) != bad_.end()) return nullptr;
  const Value* value = find_value(root_, pointer);
  if (value != nullptr) return value;
  return field->default_value.is_set() ? &field->default_value : nullptr;
}

bool Effective::is_given(std::string_view pointer) const {
  const Value* value = find_value(root_, pointer);
  return value != nullptr && !is_empty(*value);
}

bool Effective::is_asked(std::string_view pointer) const {
  const Value* value = find_value(root_, pointer);
  if (value == nullptr || (value->origin != Origin::kFile && value->origin != Origin::kSet)) return false;
  return !same_content(*value, schema_at(pointer)->default_value);
}

Origin Effective::origin(std::string_view pointer) const {
  const Value* value = find_value(root_, pointer);
  return value == nullptr ? Origin::kDefault : value->origin;
}

int64_t Effective::integer(std::string_view pointer) const {
  const Value* value = find(pointer);
  HWS_CHECK(value != nullptr && value->kind == Value::Kind::kInt);
  return value->integer;
}

double Effective::number(std::string_view pointer) const {
  const Value* value = find(pointer);
  HWS_CHECK(value != nullptr);
  return as_double(*value);
}

bool Effective::flag(std::string_view pointer) const {
  const Value* value = find(pointer);
  HWS_CHECK(value != nullptr && value->kind == Value::Kind::kBool);
  return value->boolean;
}

const std::string& Effective::text(std::string_view pointer) const {
  const Value* value = find(pointer);
  HWS_CHECK(value != nullptr && value->kind == Value::Kind::kString);
  return value->text;
}

bool Effective::is(std::string_view pointer, std::string_view name) const {
  const Value* value = find(pointer);
  return value != nullptr && value->kind == Value::Kind::kString && value->text == name;
}

size_t Effective::count(std::string_view pointer) const {
  const Value* value = find(pointer);
  return value == nullptr ? 0 : value->items.size();
}

std::string Effective::fill(std::string_view pattern) const {
  std::string result;
  while (!pattern.empty()) {
    const size_t open = pattern.find("{/");
    result += pattern.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = pattern.find('}', open);
    HWS_CHECK(close != std::string_view::npos);
    const std::string_view pointer = pattern.substr(open + 1, close - open - 1);
    const Value* value = find(pointer);
    result += value == nullptr ? "not set" : write_json(*value, *schema_at(pointer));
    pattern.remove_prefix(close + 1);
  }
  return result;
}

}  // namespace hawser::config
