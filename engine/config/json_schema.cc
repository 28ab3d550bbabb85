// JSON Schema writer: generates the JSON Schema (draft 2020-12) of the config file from the embedded schema,
// so that editors can complete keys, show docs and mark mistakes. JSON Schema cannot express rules between
// fields; `validate` checks those.
#include <set>

#include "engine/base/json.h"
#include "engine/config/config_tree.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

class SchemaWriter {
 public:
  OrderedJson write() {
    OrderedJson root;
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema";
    root["title"] = "Hawser config";
    root.update(table(schema()));
    root["properties"]["$schema"] = {{"type", "string"},
                                     {"description", "Where this schema is; for editors."}};
    root["$defs"] = std::move(definitions_);
    return root;
  }

 private:
  OrderedJson table(const TableView& view) {
    OrderedJson json;
    json["type"] = "object";
    if (!view.doc.empty()) json["description"] = view.doc;
    json["additionalProperties"] = false;
    OrderedJson properties = OrderedJson::object();
    for (const FieldView& child : view.fields) properties[child.name] = field(child);
    json["properties"] = std::move(properties);
    return json;
  }

  OrderedJson field(const FieldView& view) {
    OrderedJson json;
    std::string doc = view.doc;
    if (!view.unit.empty()) doc += (doc.empty() ? "In " : " In ") + view.unit + ".";
    if (!doc.empty()) json["description"] = doc;
    type(view, &json);
    if (view.default_value.is_set())
      json["default"] = parse_json<OrderedJson>(write_json(view.default_value, view));
    return json;
  }

  void type(const FieldView& view, OrderedJson* json) {
    switch (view.kind) {
      case FieldKind::kBool:
        (*json)["type"] = "boolean";
        return;
      case FieldKind::kInt:
        (*json)["type"] = "integer";
        return limits(view, json);
      case FieldKind::kUint:
        (*json)["type"] = "integer";
        (*json)["minimum"] = 0;
        return;
      case FieldKind::kDouble:
        (*json)["type"] = "number";
        return limits(view, json);
      case FieldKind::kString:
        (*json)["type"] = "string";
        if (!view.choices.empty()) (*json)["enum"] = view.choices;
        if (&view == schema().find("preset")) (*json)["enum"] = preset_names();
        return;
      case FieldKind::kEnum: {
        (*json)["type"] = "string";
        std::string docs;
        for (const EnumView::Item& item : view.enumeration->items) {
          (*json)["enum"].push_back(item.name);
          if (!item.doc.empty()) docs += (docs.empty() ? "" : " ") + item.name + ": " + item.doc;
        }
        if (!docs.empty()) (*json)["description"] = view.doc + (view.doc.empty() ? "" : " ") + docs;
        return;
      }
      case FieldKind::kArray:
        (*json)["type"] = "array";
        type(*view.element, &(*json)["items"]);
        return;
      case FieldKind::kTable:
        if (done_.insert(view.table->name).second) definitions_[view.table->name] = table(*view.table);
        (*json)["$ref"] = "#/$defs/" + view.table->name;
        return;
    }
  }

  static void limits(const FieldView& view, OrderedJson* json) {
    const auto put = [&](const char* key, const std::optional<double>& value) {
      if (!value) return;
      (*json)[key] =
          view.kind == FieldKind::kInt ? OrderedJson(static_cast<int64_t>(*value)) : OrderedJson(*value);
    };
    put("minimum", view.minimum);
    put("maximum", view.maximum);
    put("exclusiveMinimum", view.above);
    put("exclusiveMaximum", view.below);
  }

  OrderedJson definitions_ = OrderedJson::object();
  std::set<std::string> done_;
};

}  // namespace

std::string json_schema() { return SchemaWriter().write().dump(2); }

}  // namespace hawser::config
