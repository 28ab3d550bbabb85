// Schema view: reads the embedded binary schema through FlatBuffers' reflection tables (headers only).
#include "engine/config/schema_view.h"

#include <flatbuffers/reflection_generated.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "engine/base/error.h"

namespace hawser::config {

// embed.cmake generates these from config.fbs during the build.
extern const unsigned char kConfigSchema[];
extern const size_t kConfigSchemaSize;

namespace {

std::string join_docs(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* lines) {
  std::string doc;
  if (lines == nullptr) return doc;
  for (const flatbuffers::String* line : *lines) {
    std::string_view text(line->c_str(), line->size());
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    if (!doc.empty()) doc += ' ';
    doc += text;
  }
  return doc;
}

std::string_view attribute(const reflection::Field& field, std::string_view name) {
  if (field.attributes() == nullptr) return {};
  for (const reflection::KeyValue* pair : *field.attributes()) {
    if (pair->key()->string_view() == name) return pair->value()->string_view();
  }
  return {};
}

double parse_double(std::string_view text) {  // from_chars ignores the locale of the host program
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  HWS_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size());
  return value;
}

int64_t parse_int(std::string_view text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  HWS_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size());
  return value;
}

std::optional<double> limit(const reflection::Field& field, const char* name) {
  const std::string_view text = attribute(field, name);
  if (text.empty()) return std::nullopt;
  return parse_double(text);
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> result;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) result.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

class Builder {
 public:
  explicit Builder(const reflection::Schema& schema) : schema_(schema) {}

  const TableView* table(const reflection::Object& object) {
    TableView*& slot = tables_[object.name()->str()];
    if (slot != nullptr) return slot;
    slot = new TableView;
    TableView* view = slot;
    const std::string full = object.name()->str();
    view->name = full.substr(full.rfind('.') + 1);
    view->doc = join_docs(object.documentation());
    view->fields.resize(object.fields()->size());
    for (const reflection::Field* field : *object.fields()) {
      HWS_CHECK(field->id() < view->fields.size());
      view->fields[field->id()] = make_field(*field);
    }
    return view;
  }

 private:
  FieldView make_field(const reflection::Field& field) {
    FieldView view;
    view.name = field.name()->str();
    view.doc = join_docs(field.documentation());
    view.unit = attribute(field, "unit");
    view.also = words(attribute(field, "also"));
    view.choices = words(attribute(field, "choices"));
    view.id = field.id();
    view.vtable_offset = field.offset();
    view.minimum = limit(field, "minimum");
    view.maximum = limit(field, "maximum");
    view.above = limit(field, "above");
    view.below = limit(field, "below");
    set_type(field.type()->base_type(), *field.type(), &view);
    if (view.kind == FieldKind::kArray) {
      FieldView element = view;
      element.id = 0;
      element.also.clear();
      set_type(field.type()->element(), *field.type(), &element);
      view.element = std::make_shared<const FieldView>(std::move(element));
    }
    view.default_value = make_default(view, attribute(field, "default"));
    return view;
  }

  void set_type(reflection::BaseType base, const reflection::Type& type, FieldView* view) {
    switch (base) {
      case reflection::Bool:
        view->kind = FieldKind::kBool;
        return;
      case reflection::Long:
        view->kind = FieldKind::kInt;
        return;
      case reflection::ULong:
        view->kind = FieldKind::kUint;
        return;
      case reflection::Double:
        view->kind = FieldKind::kDouble;
        return;
      case reflection::String:
        view->kind = FieldKind::kString;
        return;
      case reflection::Vector:
        view->kind = FieldKind::kArray;
        return;
      case reflection::UByte:
        HWS_CHECK(type.index() >= 0);
        view->kind = FieldKind::kEnum;
        view->enumeration = enumeration(*schema_.enums()->Get(static_cast<uint32_t>(type.index())));
        return;
      case reflection::Obj:
        view->kind = FieldKind::kTable;
        view->table = table(*schema_.objects()->Get(static_cast<uint32_t>(type.index())));
        return;
      default:
        fail(Code::kInternal, "config schema: field {} has a type that the walker does not know", view->name);
    }
  }

  const EnumView* enumeration(const reflection::Enum& source) {
    EnumView*& slot = enums_[source.name()->str()];
    if (slot != nullptr) return slot;
    slot = new EnumView;
    const std::string full = source.name()->str();
    slot->name = full.substr(full.rfind('.') + 1);
    for (const reflection::EnumVal* value : *source.values()) {
      slot->items.push_back({value->name()->str(), value->value(), join_docs(value->documentation())});
    }
    return slot;
  }

  static Value make_default(const FieldView& field, std::string_view text) {
    if (text.empty()) return Value();
    switch (field.kind) {
      case FieldKind::kBool:
        return Value::of_bool(text == "true");
      case FieldKind::kInt:
        return Value::of_int(parse_int(text));
      case FieldKind::kUint:
        return Value::of_uint(static_cast<uint64_t>(parse_int(text)));
      case FieldKind::kDouble:
        return Value::of_double(parse_double(text));
      case FieldKind::kString:
        return Value::of_string(std::string(text));
      case FieldKind::kEnum:
        HWS_CHECK(field.enumeration->find(text) != nullptr);
        return Value::of_string(std::string(text));
      default:
        fail(Code::kInternal, "config schema: field {} cannot have a default", field.name);
    }
  }

  const reflection::Schema& schema_;
  std::map<std::string, TableView*> tables_;
  std::map<std::string, EnumView*> enums_;
};

}  // namespace

const EnumView::Item* EnumView::find(std::string_view item_name) const {
  for (const Item& item : items) {
    if (item.name == item_name) return &item;
  }
  return nullptr;
}

const EnumView::Item* EnumView::find(int64_t value) const {
  for (const Item& item : items) {
    if (item.value == value) return &item;
  }
  return nullptr;
}

const FieldView* TableView::find(std::string_view field_name) const {
  for (const FieldView& field : fields) {
    if (field.name == field_name) return &field;
  }
  return nullptr;
}

const FieldView& schema_field() {
  // Never freed: no destructor may run at exit while a thread of the host program still reads a config.
  static const FieldView* const root = [] {
    auto* field = new FieldView;
    const reflection::Schema& source = *reflection::GetSchema(kConfigSchema);
    field->kind = FieldKind::kTable;
    field->table = Builder(source).table(*source.root_table());
    return field;
  }();
  return *root;
}

const TableView& schema() { return *schema_field().table; }

const uint8_t* schema_bytes() { return kConfigSchema; }
size_t schema_size() { return kConfigSchemaSize; }

std::string_view kind_name(const FieldView& field) {
  switch (field.kind) {
    case FieldKind::kBool:
      return "true or false";
    case FieldKind::kInt:
      return "integer";
    case FieldKind::kUint:
      return "integer >= 0";
    case FieldKind::kDouble:
      return "number";
    case FieldKind::kString:
      return "string";
    case FieldKind::kEnum:
      return "string";
    case FieldKind::kArray:
      return "array";
    case FieldKind::kTable:
      return "object";
  }
  return "";
}

std::string valid_names(const FieldView& field) {
  std::vector<std::string> names = field.choices;
  if (field.enumeration != nullptr) {
    for (const EnumView::Item& item : field.enumeration->items) names.push_back(item.name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += '"' + names[i] + '"';
  }
  return text;
}

int64_t number_of(const FieldView& field, std::string_view name) {
  if (field.enumeration != nullptr) return field.enumeration->find(name)->value;
  return std::find(field.choices.begin(), field.choices.end(), name) - field.choices.begin();
}

const std::string& name_of(const FieldView& field, int64_t number) {
  if (field.enumeration != nullptr) return field.enumeration->find(number)->name;
  return field.choices[static_cast<size_t>(number)];
}

}  // namespace hawser::config
