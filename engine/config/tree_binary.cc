// Binary config: converts FlatBuffers binary to the tree and back, driven by the schema, without generated
// code. Each byte is verified before it is read. This file refuses what FlatBuffers' own verifier accepts:
// unknown enum values, NaN, unknown ids, text that is not UTF-8.
#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/config/problems.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Table;
using flatbuffers::uoffset_t;
using flatbuffers::Vector;

constexpr char kIdentifier[] = "HWSC";

class BinaryReader {
 public:
  BinaryReader(const uint8_t* data, size_t size) : data_(data), verifier_(data, size, limits()) {}

  Value read() {
    const uoffset_t root = verifier_.VerifyOffset(size_t{0});
    if (root == 0) damaged("the root offset");
    Value value = read_table(data_ + root, schema(), "");
    throw_if_any(problems_.take());
    return value;
  }

 private:
  static flatbuffers::Verifier::Options limits() {
    flatbuffers::Verifier::Options options;
    options.max_depth = kMostDepth;
    options.max_tables = kMostItems;
    return options;
  }
  [[noreturn]] static void damaged(const std::string& where) {
    fail(Code::kConfigParse, "config binary: damaged at {}; write it again, or give the config as JSON",
         where);
  }

  Value read_table(const uint8_t* start, const TableView& view, const std::string& pointer);
  Value read_field(const Table& table, const FieldView& field, const std::string& pointer);
  Value read_array(const uint8_t* start, const FieldView& field, const std::string& pointer);
  Value read_string(const uint8_t* start, const std::string& pointer);
  Value checked_double(double number, const std::string& pointer);

  const uint8_t* data_;
  flatbuffers::Verifier verifier_;
  ProblemList problems_;
  size_t text_bytes_ = 0;  ///< read so far; many offsets may point to one long string
};

Value BinaryReader::read_table(const uint8_t* start, const TableView& view, const std::string& pointer) {
  if (!verifier_.VerifyTableStart(start)) damaged("the table " + (pointer.empty() ? "Config" : pointer));
  const Table& table = *reinterpret_cast<const Table*>(start);
  const uint16_t vtable_size = flatbuffers::ReadScalar<uint16_t>(table.GetVTable());
  const size_t slots = vtable_size < 4 ? 0 : (vtable_size - 4u) / 2;
  Value value = Value::table(view.fields.size());
  for (size_t id = 0; id < slots; ++id) {
    const auto offset = static_cast<flatbuffers::voffset_t>(4 + 2 * id);
    if (table.GetOptionalFieldOffset(offset) == 0) continue;
    if (id >= view.fields.size()) {
      problems_.add(pointer, fmt::format("unknown field id {} in table {}", id, view.name),
                    "remove it: this version of Hawser has no such field");
      continue;
    }
    const FieldView& field = view.fields[id];
    value.fields[id] = read_field(table, field, pointer + "/" + field.name);
  }
  verifier_.EndTable();
  return value;
}

Value BinaryReader::read_field(const Table& table, const FieldView& field, const std::string& pointer) {
  const flatbuffers::voffset_t offset = field.vtable_offset;
  switch (field.kind) {
    case FieldKind::kBool: {
      if (!table.VerifyField<uint8_t>(verifier_, offset, 1)) damaged(pointer);
      const uint8_t byte = table.GetField<uint8_t>(offset, 0);
      if (byte > 1)
        problems_.add(pointer, fmt::format("expected true or false, got byte {}", byte), "use 0 or 1");
      return Value::of_bool(byte != 0);
    }
    case FieldKind::kEnum: {
      if (!table.VerifyField<uint8_t>(verifier_, offset, 1)) damaged(pointer);
      const uint8_t number = table.GetField<uint8_t>(offset, 0);
      const EnumView::Item* item = field.enumeration->find(static_cast<int64_t>(number));
      if (item != nullptr) return Value::of_string(item->name);
      problems_.add(pointer, fmt::format("{} is not a value of enum {}", number, field.enumeration->name),
                    "use one of " + valid_names(field));
      return Value();
    }
    case FieldKind::kInt:
      if (!table.VerifyField<int64_t>(verifier_, offset, 8)) damaged(pointer);
      return Value::of_int(table.GetField<int64_t>(offset, 0));
    case FieldKind::kUint:
      if (!table.VerifyField<uint64_t>(verifier_, offset, 8)) damaged(pointer);
      return Value::of_uint(table.GetField<uint64_t>(offset, 0));
    case FieldKind::kDouble:
      if (!table.VerifyField<double>(verifier_, offset, 8)) damaged(pointer);
      return checked_double(table.GetField<double>(offset, 0), pointer);
    default:
      break;
  }
  if (!table.VerifyOffset(verifier_, offset)) damaged(pointer);
  const uint8_t* target = table.GetPointer<const uint8_t*>(offset);
  if (field.kind == FieldKind::kTable) return read_table(target, *field.table, pointer);
  if (field.kind == FieldKind::kString) return read_string(target, pointer);
  return read_array(target, field, pointer);
}

Value BinaryReader::checked_double(double number, const std::string& pointer) {
  if (!std::isfinite(number))
    problems_.add(pointer, fmt::format("{} is not a finite number", number), "use one");
  return Value::of_double(number);
}

Value BinaryReader::read_string(const uint8_t* start, const std::string& pointer) {
  const auto* text = reinterpret_cast<const String*>(start);
  if (!verifier_.VerifyString(text)) damaged(pointer);
  text_bytes_ += text->size();
  if (text_bytes_ > 2 * kMostBytes) damaged(pointer + " (strings of the config together are too long)");
  if (!is_clean_text({text->c_str(), text->size()})) {
    problems_.add(pointer, "the string is not UTF-8, or has a NUL character in it", "use UTF-8");
  }
  return Value::of_string(text->str());
}

Value BinaryReader::read_array(const uint8_t* start, const FieldView& field, const std::string& pointer) {
  const FieldView& element = *field.element;
  const bool inline_elements = element.kind == FieldKind::kInt;
  HWS_CHECK(inline_elements || element.kind == FieldKind::kString || element.kind == FieldKind::kTable);
  const auto* offsets = reinterpret_cast<const Vector<uoffset_t>*>(start);
  if (inline_elements ? !verifier_.VerifyVector(reinterpret_cast<const Vector<int64_t>*>(start))
                      : !verifier_.VerifyVector(offsets)) {
    damaged(pointer);
  }
  Value array;
  array.kind = Value::Kind::kArray;
  if (offsets->size() > kMostItems) damaged(fmt::format("{} (more than {} elements)", pointer, kMostItems));
  for (uoffset_t i = 0; i < offsets->size(); ++i) {
    const std::string here = fmt::format("{}/{}", pointer, i);
    if (inline_elements) {
      int64_t number = 0;
      std::memcpy(&number, offsets->Data() + sizeof(number) * i, sizeof(number));
      array.items.push_back(Value::of_int(number));
      continue;
    }
    const uint8_t* slot = offsets->Data() + sizeof(uoffset_t) * i;
    const uoffset_t offset = verifier_.VerifyOffset(static_cast<size_t>(slot - data_));
    if (offset == 0) damaged(here);
    array.items.push_back(element.kind == FieldKind::kString
                              ? read_string(slot + offset, here)
                              : read_table(slot + offset, *element.table, here));
  }
  return array;
}

uoffset_t write_table(const Value& value, const TableView& view, FlatBufferBuilder* builder);

/// Writes what a table refers to before the table itself, as FlatBuffers requires; returns 0 for inline
/// fields.
uoffset_t write_child(const Value& value, const FieldView& field, FlatBufferBuilder* builder) {
  if (field.kind == FieldKind::kString) return builder->CreateString(value.text).o;
  if (field.kind == FieldKind::kTable) return is_empty(value) ? 0 : write_table(value, *field.table, builder);
  if (field.kind != FieldKind::kArray) return 0;
  if (field.element->kind == FieldKind::kInt) {
    std::vector<int64_t> numbers;
    for (const Value& item : value.items) numbers.push_back(item.integer);
    return builder->CreateVector(numbers).o;
  }
  std::vector<Offset<String>> offsets;
  for (const Value& item : value.items) {
    const bool text = field.element->kind == FieldKind::kString;
    offsets.emplace_back(text ? builder->CreateString(item.text).o
                              : write_table(item, *field.element->table, builder));
  }
  return builder->CreateVector(offsets).o;
}

uoffset_t write_table(const Value& value, const TableView& view, FlatBufferBuilder* builder) {
  std::vector<uoffset_t> children(view.fields.size(), 0);
  for (const FieldView& field : view.fields) {
    const Value& slot = value.fields[static_cast<size_t>(field.id)];
    if (slot.is_set()) children[static_cast<size_t>(field.id)] = write_child(slot, field, builder);
  }
  const uoffset_t start = builder->StartTable();
  for (const FieldView& field : view.fields) {
    const size_t id = static_cast<size_t>(field.id);
    const Value& slot = value.fields[id];
    if (!slot.is_set()) continue;
    const flatbuffers::voffset_t offset = field.vtable_offset;
    switch (field.kind) {
      case FieldKind::kBool:
        builder->AddElement<uint8_t>(offset, slot.boolean ? 1 : 0);
        break;
      case FieldKind::kEnum:
        builder->AddElement<uint8_t>(offset, static_cast<uint8_t>(field.enumeration->find(slot.text)->value));
        break;
      case FieldKind::kInt:
        builder->AddElement<int64_t>(offset, slot.integer);
        break;
      case FieldKind::kUint:
        builder->AddElement<uint64_t>(offset, slot.unsigned_integer);
        break;
      case FieldKind::kDouble:
        builder->AddElement<double>(offset, slot.number);
        break;
      default:
        if (children[id] != 0) builder->AddOffset(offset, Offset<void>(children[id]));
    }
  }
  return builder->EndTable(start);
}

}  // namespace

Value read_binary(const void* data, size_t size, Origin origin) {
  if (size > kMostBytes) {
    fail(Code::kConfigParse, "config binary: {} bytes; a config has at most {}", size, kMostBytes);
  }
  if (data == nullptr || size < 12) fail(Code::kConfigParse, "config binary: {} bytes are too few", size);
  if (std::memcmp(static_cast<const char*>(data) + 4, kIdentifier, 4) != 0) {
    fail(Code::kConfigParse,
         "config binary: no file identifier {} at offset 4; is it JSON, or another schema?", kIdentifier);
  }
  // The caller's bytes may be unaligned, but FlatBuffers reads aligned numbers.
  std::vector<uint64_t> aligned((size + 7) / 8);
  std::memcpy(aligned.data(), data, size);
  Value value = BinaryReader(reinterpret_cast<const uint8_t*>(aligned.data()), size).read();
  set_origin(&value, origin);
  return value;
}

std::vector<uint8_t> write_binary(const Value& root) {
  FlatBufferBuilder builder;
  const Value empty = Value::table(schema().fields.size());
  const Value& source = root.kind == Value::Kind::kTable ? root : empty;
  builder.Finish(Offset<void>(write_table(source, schema(), &builder)), kIdentifier);
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace hawser::config
