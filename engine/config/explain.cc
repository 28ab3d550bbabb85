// explain: reports the value of each field, its origin, and its description in the schema.
#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/config/config_tree.h"
#include "engine/config/effective.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

const char* origin_name(const Value& value, const FieldView& field) {
  if (!value.is_set()) return field.default_value.is_set() ? "default" : "unset";
  switch (value.origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kPreset:
      return "preset";
    case Origin::kImported:
      return "imported";
    case Origin::kFile:
      return "file";
    case Origin::kSet:
      return "set";
    case Origin::kRule:
      return "rule";
  }
  return "unset";
}

OrderedJson limit(const FieldView& field, const std::optional<double>& value) {
  if (!value) return nullptr;
  if (field.kind == FieldKind::kDouble) return *value;
  return static_cast<int64_t>(*value);
}

OrderedJson explain_field(const Value& value, const FieldView& field, const std::string& pointer) {
  const Value& effective = value.is_set() ? value : field.default_value;
  OrderedJson json;
  json["pointer"] = pointer;
  json["type"] =
      field.enumeration != nullptr ? "one of " + valid_names(field) : std::string(kind_name(field));
  json["value"] = parse_json<OrderedJson>(write_json(effective, field));
  json["origin"] = origin_name(value, field);
  json["rule"] = value.is_set() && value.rule != nullptr ? OrderedJson(value.rule) : OrderedJson(nullptr);
  json["default"] = parse_json<OrderedJson>(write_json(field.default_value, field));
  json["minimum"] = limit(field, field.minimum);
  json["maximum"] = limit(field, field.maximum);
  if (field.above) json["above"] = limit(field, field.above);
  if (field.below) json["below"] = limit(field, field.below);
  json["unit"] = field.unit.empty() ? OrderedJson(nullptr) : OrderedJson(field.unit);
  json["doc"] = field.doc;
  return json;
}

void explain_below(const Value& value, const FieldView& field, const std::string& pointer,
                   OrderedJson* list) {
  if (field.kind != FieldKind::kTable) {
    list->push_back(explain_field(value, field, pointer));
    return;
  }
  static const Value* const unset = new Value;
  for (const FieldView& child : field.table->fields) {
    const Value& slot = value.is_set() ? value.fields[static_cast<size_t>(child.id)] : *unset;
    explain_below(slot, child, pointer + "/" + child.name, list);
  }
}

}  // namespace

std::string explain(const ConfigTree& tree, std::string_view pointer) {
  std::vector<std::string> tokens;
  Problem wrong{std::string(pointer), "not a JSON pointer",
                "write it as /section/field, such as /model/layers"};
  const FieldView* field = split_pointer(pointer, &tokens) ? field_at(tokens, &wrong) : nullptr;
  if (field == nullptr) {
    const OrderedJson details = {{"pointer", wrong.pointer}, {"message", wrong.message}, {"fix", wrong.fix}};
    throw Error(Code::kNotFound, fmt::format("{}: {}; {}", wrong.pointer, wrong.message, wrong.fix),
                details.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }
  const Effective effective(tree.impl().root);
  const Value* value = find_value(effective.root(), pointer);
  const Value unset;
  if (field->kind != FieldKind::kTable) {
    return explain_field(value != nullptr ? *value : unset, *field, std::string(pointer)).dump(2);
  }
  OrderedJson list = OrderedJson::array();
  explain_below(value != nullptr ? *value : unset, *field, std::string(pointer), &list);
  return list.dump(2);
}

}  // namespace hawser::config
