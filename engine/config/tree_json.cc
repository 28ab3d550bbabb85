// JSON config: converts JSON to the tree and back. Reading is streamed (SAX), so that duplicate keys are
// seen and only the tree is built. All faults of the text are collected before they are reported.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/json_end.h"
#include "engine/base/utf8.h"
#include "engine/config/problems.h"
#include "engine/config/suggest.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

constexpr size_t kMostKeyShown = 100;          // maximum length of an unknown key in a problem's pointer
constexpr const char* kSchemaKey = "$schema";  // editors use it to find the JSON Schema; it is ignored

/// Receives nlohmann's SAX events. One frame per open object or array.
class Reader {
 public:
  Reader(std::string_view text, const FieldView& field, std::string pointer, Value* root)
      : text_(text), root_field_(field), root_pointer_(std::move(pointer)), root_(root) {}

  std::vector<Problem> take_problems() { return problems_.take(); }

  // nlohmann calls these; it fixes their names and signatures. True means continue.
  bool null() { return mismatch("null", frames_.empty() ? "" : "leave the field out to get its default"); }
  bool boolean(bool v) {
    const Slot slot = next();
    if (slot.field == nullptr) return true;
    if (slot.field->kind != FieldKind::kBool) return mismatch(slot, v ? "true" : "false", "");
    return store(slot, Value::of_bool(v));
  }
  bool number_integer(Json::number_integer_t v) {
    const Slot slot = next();
    if (slot.field == nullptr) return true;
    if (slot.field->kind == FieldKind::kInt) return store(slot, Value::of_int(v));
    if (slot.field->kind == FieldKind::kDouble) return store(slot, Value::of_double(static_cast<double>(v)));
    return mismatch(slot, fmt::format("integer {}", v), slot.field->kind == FieldKind::kUint ? "use 0" : "");
  }
  bool number_unsigned(Json::number_unsigned_t v) {
    const Slot slot = next();
    if (slot.field == nullptr) return true;
    if (slot.field->kind == FieldKind::kUint) return store(slot, Value::of_uint(v));
    if (slot.field->kind == FieldKind::kDouble) return store(slot, Value::of_double(static_cast<double>(v)));
    if (slot.field->kind != FieldKind::kInt) return mismatch(slot, fmt::format("integer {}", v), "");
    if (v > static_cast<uint64_t>(INT64_MAX)) return too_large(slot, std::to_string(v));
    return store(slot, Value::of_int(static_cast<int64_t>(v)));
  }
  bool number_float(Json::number_float_t v, const std::string& raw) {
    const Slot slot = next();
    if (slot.field == nullptr) return true;
    if (slot.field->kind == FieldKind::kDouble) return store(slot, Value::of_double(v));
    const bool integer = slot.field->kind == FieldKind::kInt || slot.field->kind == FieldKind::kUint;
    if (!integer) return mismatch(slot, "number " + raw, "");
    if (raw.find_first_of(".eE") == std::string::npos) return too_large(slot, raw);
    const bool small = std::abs(v) < 9e15;
    return mismatch(slot, "number " + raw, small ? fmt::format("write {:.0f}", v) : "");
  }
  bool string(std::string& v) {
    const Slot slot = next();
    if (slot.field == nullptr) return true;
    if (slot.field->kind == FieldKind::kEnum) return enum_name(slot, v);
    if (slot.field->kind != FieldKind::kString) {
      const bool number = slot.field->kind != FieldKind::kArray && slot.field->kind != FieldKind::kTable &&
                          json_error_at(v) == 0;
      return mismatch(slot, "string " + quote(v), number ? fmt::format("write {} without quotes", v) : "");
    }
    if (v.find('\0') != std::string::npos) {
      problems_.add(slot.pointer, "the string has a NUL character in it", "remove \\u0000");
      return true;
    }
    return store(slot, Value::of_string(v));
  }
  bool binary(Json::binary_t&) { return mismatch("binary data", ""); }
  bool start_object(size_t) { return start(FieldKind::kTable, "object"); }
  bool start_array(size_t) { return start(FieldKind::kArray, "array"); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string& name);
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error);

 private:
  struct Slot {
    const FieldView* field;  ///< null: skip the value
    Value* value;
    std::string pointer;
  };
  struct Frame {
    Slot self;
    std::vector<bool> seen;              ///< object: the keys seen so far
    const FieldView* pending = nullptr;  ///< object: the field of the last key
    size_t count = 0;                    ///< array: the elements so far
  };

  /// Returns the slot of the next value.
  Slot next();
  bool start(FieldKind kind, const char* name);
  bool end() {
    frames_.pop_back();
    return true;
  }
  bool store(const Slot& slot, Value value) {
    *slot.value = std::move(value);
    return true;
  }
  bool enum_name(const Slot& slot, const std::string& name);
  bool too_large(const Slot& slot, const std::string& raw) {
    problems_.add(slot.pointer, fmt::format("{} is too large for a 64-bit integer", quote(raw)),
                  "use a smaller number");
    return true;
  }
  bool mismatch(const Slot& slot, const std::string& got, const std::string& fix) {
    const std::string_view expected = kind_name(*slot.field);
    problems_.add(slot.pointer, fmt::format("expected {}, got {}", expected, got),
                  fix.empty() ? fmt::format("give {}: {}", expected, example(*slot.field)) : fix);
    return true;
  }
  bool mismatch(const std::string& got, const std::string& fix) {
    const Slot slot = next();
    return slot.field == nullptr || mismatch(slot, got, fix);
  }
  static std::string example(const FieldView& field);

  std::string_view text_;
  const FieldView& root_field_;
  std::string root_pointer_;
  Value* root_;
  std::vector<Frame> frames_;
  ProblemList problems_;
};

Reader::Slot Reader::next() {
  if (frames_.empty()) return {&root_field_, root_, root_pointer_};
  Frame& frame = frames_.back();
  if (frame.self.field == nullptr) return {nullptr, nullptr, ""};
  if (frame.self.field->kind == FieldKind::kTable) {
    if (frame.pending == nullptr) return {nullptr, nullptr, ""};
    const FieldView* field = frame.pending;
    return {field, &frame.self.value->fields[static_cast<size_t>(field->id)],
            frame.self.pointer + "/" + field->name};
  }
  const size_t index = frame.count++;
  if (index >= kMostItems) {
    if (index == kMostItems) {
      problems_.add(frame.self.pointer, fmt::format("the array has more than {} elements", kMostItems),
                    "use fewer");
    }
    return {nullptr, nullptr, ""};
  }
  frame.self.value->items.emplace_back();
  return {frame.self.field->element.get(), &frame.self.value->items.back(),
          fmt::format("{}/{}", frame.self.pointer, index)};
}

bool Reader::start(FieldKind kind, const char* name) {
  if (frames_.size() >= static_cast<size_t>(kMostDepth)) {
    fail(Code::kConfigParse, "config: nested deeper than {} levels; a config needs no more than 5",
         kMostDepth);
  }
  Slot slot = next();
  if (slot.field != nullptr && slot.field->kind != kind) {
    mismatch(slot, name, "");
    slot.field = nullptr;
  }
  Frame frame;
  if (slot.field != nullptr) {
    if (kind == FieldKind::kTable) {
      *slot.value = Value::table(slot.field->table->fields.size());
      frame.seen.resize(slot.value->fields.size());
    } else {
      slot.value->kind = Value::Kind::kArray;
    }
  }
  frame.self = std::move(slot);
  frames_.push_back(std::move(frame));
  return true;
}

bool Reader::key(std::string& name) {
  Frame& frame = frames_.back();
  frame.pending = nullptr;
  if (frame.self.field == nullptr) return true;
  if (frames_.size() == 1 && root_pointer_.empty() && name == kSchemaKey) return true;
  const TableView& table = *frame.self.field->table;
  const FieldView* field = table.find(name);
  const std::string pointer =
      frame.self.pointer + "/" + escape_token(cut_between_characters(name, kMostKeyShown));
  if (field == nullptr) {
    problems_.add(pointer, fmt::format("unknown key {}", quote(name)),
                  suggest_key(table, frame.self.pointer, name));
    return true;
  }
  if (frame.seen[static_cast<size_t>(field->id)]) {
    problems_.add(pointer, fmt::format("the key {} appears twice", quote(name)), "keep one of them");
    return true;
  }
  frame.seen[static_cast<size_t>(field->id)] = true;
  frame.pending = field;
  return true;
}

bool Reader::enum_name(const Slot& slot, const std::string& name) {
  const EnumView& enumeration = *slot.field->enumeration;
  if (enumeration.find(name) != nullptr) return store(slot, Value::of_string(name));
  std::vector<std::string> names;
  for (const EnumView::Item& item : enumeration.items) names.push_back(item.name);
  const std::string near = nearest_name(name, names);
  problems_.add(slot.pointer, fmt::format("{} is not one of {}", quote(name), valid_names(*slot.field)),
                near.empty() ? "use one of them" : fmt::format("did you mean \"{}\"?", near));
  return true;
}

bool Reader::parse_error(size_t position, const std::string& token,
                         const nlohmann::detail::exception& error) {
  const size_t end = std::min(position, text_.size());
  const auto lines = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const size_t last_newline = end == 0 ? std::string_view::npos : text_.rfind('\n', end - 1);
  const size_t column = last_newline == std::string_view::npos ? end : end - last_newline - 1;
  if (error.id == 406) {  // valid JSON, but beyond the largest double
    const Slot slot = next();
    problems_.add(slot.pointer, fmt::format("{} is too large for a 64-bit float", quote(token)),
                  "use a finite number");
    return false;
  }
  std::string what = error.what();
  const size_t colon = what.find(": ", what.find("column"));
  if (colon != std::string::npos) what = what.substr(colon + 2);
  fail(Code::kConfigParse,
       "config JSON, line {}, column {}: {}; the config must be strict JSON (no comments, no "
       "trailing commas)",
       lines + 1, column, what);
}

std::string Reader::example(const FieldView& field) {
  if (field.enumeration != nullptr) return valid_names(field);
  if (field.default_value.is_set()) return "default " + write_json(field.default_value, field);
  switch (field.kind) {
    case FieldKind::kBool:
      return "true";
    case FieldKind::kInt:
    case FieldKind::kUint:
      return "such as 8";
    case FieldKind::kDouble:
      return "such as 0.5";
    case FieldKind::kString:
      return "such as \"text\"";
    case FieldKind::kArray:
      return "[...]";
    default:
      return "{...}";
  }
}

OrderedJson to_json_value(const Value& value, const FieldView& field) {
  switch (value.kind) {
    case Value::Kind::kUnset:
      return nullptr;
    case Value::Kind::kBool:
      return value.boolean;
    case Value::Kind::kInt:
      return value.integer;
    case Value::Kind::kUint:
      return value.unsigned_integer;
    case Value::Kind::kDouble:
      return value.number;
    case Value::Kind::kString:
      return value.text;
    case Value::Kind::kArray: {
      auto array = OrderedJson::array();
      for (const Value& item : value.items) array.push_back(to_json_value(item, *field.element));
      return array;
    }
    case Value::Kind::kTable: {
      auto object = OrderedJson::object();
      for (const FieldView& child : field.table->fields) {
        const Value& slot = value.fields[static_cast<size_t>(child.id)];
        if (!is_empty(slot)) object[child.name] = to_json_value(slot, child);
      }
      return object;
    }
  }
  return nullptr;
}

}  // namespace

Value read_json(std::string_view text, const FieldView& field, const std::string& pointer, Origin origin) {
  if (text.size() > kMostBytes) {
    fail(Code::kConfigParse, "config: {} bytes of JSON; a config has at most {}", text.size(), kMostBytes);
  }
  if (const size_t nul = early_end_of_json(text); nul != text.npos)
    fail(Code::kConfigParse, "config: byte {} is NUL, which JSON does not have; remove it", nul + 1);
  Value value;
  Reader reader(text, field, pointer, &value);
  Json::sax_parse(text.begin(), text.end(), &reader);
  throw_if_any(reader.take_problems());
  set_origin(&value, origin);
  return value;
}

std::string write_json(const Value& value, const FieldView& field, int indent) {
  return to_json_value(value, field).dump(indent);
}

bool is_clean_text(std::string_view text) {
  return text.find('\0') == std::string_view::npos &&
         json_error_at('"' + [&] {
           std::string plain(text);  // quotes, backslashes and controls are allowed; only UTF-8 is checked
           for (char& c : plain) {
             if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = ' ';
           }
           return plain;
         }() + '"') == 0;
}

}  // namespace hawser::config
