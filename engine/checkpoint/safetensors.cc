// Safetensors headers: reads and writes them. The JSON goes through a handler that accepts only the format,
// so a hostile header needs at most a few times its own size of memory.
#include "engine/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint {
namespace {

struct KnownType {
  const char* name;
  int64_t bytes;
  std::optional<DType> dtype;
};

constexpr KnownType kTypes[] = {
    {"F32", 4, DType::kF32},      {"BF16", 2, DType::kBf16},    {"F16", 2, DType::kF16},
    {"F64", 8, DType::kF64},      {"I32", 4, DType::kI32},      {"I64", 8, DType::kI64},
    {"U8", 1, DType::kU8},        {"U16", 2, DType::kU16},      {"U32", 4, DType::kU32},
    {"I8", 1, DType::kI8},        {"I16", 2, DType::kI16},      {"U64", 8, DType::kU64},
    {"BOOL", 1, std::nullopt},    {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt}, {"C64", 8, std::nullopt}};

const KnownType* find_type(std::string_view name) {
  for (const KnownType& type : kTypes)
    if (name == type.name) return &type;
  return nullptr;
}

bool is_tensor_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxTensorName &&
         std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
}

/// Returns the bytes of a tensor, or nothing if they do not fit in 63 bits.
std::optional<int64_t> tensor_bytes(const std::vector<int64_t>& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  for (const int64_t dim : shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
  return bytes;
}

/// Accepts {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..., "__metadata__":
/// {..}}.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  HeaderHandler(const std::string& path, std::vector<TensorInfo>* tensors,
                std::map<std::string, std::string>* metadata)
      : path_(path), tensors_(*tensors), metadata_(*metadata) {}

  bool null() override { bad("null"); }
  bool boolean(bool) override { bad("a boolean"); }
  bool number_float(number_float_t, const string_t&) override {
    bad("a number with a fraction or out of range");
  }
  bool binary(binary_t&) override { bad("binary"); }
  bool number_integer(number_integer_t value) override { return number(value, value >= 0); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<int64_t>(value), value <= INT64_MAX);
  }
  bool string(string_t& text) override {
    if (place_ == Scope::kMetadata) {
      metadata_[key_] = text;
      return true;
    }
    if (place_ != Scope::kTensor || key_ != "dtype") bad("a string");
    tensors_.back().dtype = text;
    return true;
  }
  bool start_object(std::size_t) override {
    if (place_ == Scope::kStart) return enter(Scope::kTop);
    if (place_ != Scope::kTop) bad("an object");
    return enter(key_ == "__metadata__" ? Scope::kMetadata : Scope::kTensor);
  }
  bool end_object() override {
    if (place_ == Scope::kTensor && seen_ != 7) corrupt("lacks one of dtype, shape and data_offsets");
    return enter(place_ == Scope::kTop ? Scope::kEnd : Scope::kTop);
  }
  bool start_array(std::size_t) override {
    if (place_ != Scope::kTensor || key_ == "dtype") bad("an array");
    return enter(key_ == "shape" ? Scope::kShape : Scope::kOffsets);
  }
  bool end_array() override {
    if (place_ == Scope::kOffsets && count_ != 2) corrupt("has data_offsets that are not two numbers");
    return enter(Scope::kTensor);
  }
  bool key(string_t& name) override {
    if (place_ == Scope::kTop) return top_key(name);
    if (place_ == Scope::kMetadata) {
      if (metadata_.count(name) != 0)
        fail(Code::kCheckpointCorrupt, "{}: __metadata__ has the key {} twice", path_, in_quotes(name));
    } else {
      const int bit = name == "dtype" ? 1 : name == "shape" ? 2 : name == "data_offsets" ? 4 : 0;
      if (bit == 0) corrupt("has the unknown field " + in_quotes(name));
      if ((seen_ & bit) != 0) corrupt("has the field " + in_quotes(name) + " twice");
      seen_ |= bit;
    }
    key_ = name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(Code::kCheckpointCorrupt,
         "{}: the header is not valid JSON at byte {}; the file is damaged or not a safetensors file", path_,
         position + 8);
  }

 private:
  enum class Scope { kStart, kTop, kTensor, kShape, kOffsets, kMetadata, kEnd };

  [[noreturn]] void corrupt(const std::string& problem) {
    fail(Code::kCheckpointCorrupt, "{}: tensor {} {}", path_, in_quotes(tensors_.back().name), problem);
  }
  [[noreturn]] void bad(const char* what) {
    fail(Code::kCheckpointCorrupt, "{}: the header has {} in the wrong place (last key {})", path_, what,
         in_quotes(key_));
  }
  bool enter(Scope place) {
    place_ = place;
    count_ = 0;
    return true;
  }
  bool top_key(const std::string& name) {
    key_ = name;
    if (!names_.insert(name).second)
      fail(Code::kCheckpointCorrupt, "{}: the name {} appears twice in the header", path_, in_quotes(name));
    if (name == "__metadata__") return true;
    if (!is_tensor_name(name))
      fail(Code::kCheckpointCorrupt,
           "{}: a tensor name is empty, has control characters or is longer than {} bytes: {}", path_,
           kMaxTensorName, in_quotes(name));
    seen_ = 0;
    tensors_.emplace_back();
    tensors_.back().name = name;
    return true;
  }
  bool number(int64_t value, bool fits) {
    if (place_ != Scope::kShape && place_ != Scope::kOffsets) bad("a number");
    if (!fits) corrupt("has a size that is negative or too large");
    TensorInfo& tensor = tensors_.back();
    if (place_ == Scope::kShape) {
      if (tensor.shape.size() == kMaxTensorRank)
        corrupt(fmt::format("has more than {} dimensions", kMaxTensorRank));
      tensor.shape.push_back(value);
    } else {
      if (count_ >= 2) corrupt("has data_offsets that are not two numbers");
      (count_ == 0 ? tensor.begin : tensor.end) = value;
    }
    ++count_;
    return true;
  }

  const std::string& path_;
  std::vector<TensorInfo>& tensors_;
  std::map<std::string, std::string>& metadata_;
  std::unordered_set<std::string> names_;
  Scope place_ = Scope::kStart;
  std::string key_;
  int seen_ = 0, count_ = 0;
};

/// Checks that sizes match dtypes and shapes, and that the tensors, sorted by position, fill [0, data_bytes)
/// without gap or overlap.
void check_layout(const std::string& path, int64_t data_begin, int64_t data_bytes,
                  std::vector<TensorInfo>* tensors) {
  std::stable_sort(tensors->begin(), tensors->end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  int64_t at = 0;
  for (TensorInfo& tensor : *tensors) {
    const auto corrupt = [&](const std::string& problem) {
      fail(Code::kCheckpointCorrupt, "{}: tensor {} {}", path, in_quotes(tensor.name), problem);
    };
    const KnownType* type = find_type(tensor.dtype);
    if (type == nullptr) corrupt("has the unknown dtype " + in_quotes(tensor.dtype));
    const std::optional<int64_t> bytes = tensor_bytes(tensor.shape, type->bytes);
    if (!bytes) corrupt("has the shape " + shape_text(tensor.shape) + ", whose size overflows");
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes)
      corrupt(fmt::format("has data_offsets [{}, {}], but {} {} takes {} bytes", tensor.begin, tensor.end,
                          tensor.dtype, shape_text(tensor.shape), *bytes));
    if (tensor.begin != at)
      corrupt(fmt::format("starts at data byte {} where {} was expected: {}", tensor.begin, at,
                          tensor.begin < at ? "an overlap" : "a hole"));
    if (tensor.end > data_bytes)
      corrupt(fmt::format("ends at data byte {}, but the file has only {}; it was cut short", tensor.end,
                          data_bytes));
    at = tensor.end;
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  if (at != data_bytes)
    fail(Code::kCheckpointCorrupt, "{}: {} bytes after the last tensor belong to no tensor", path,
         data_bytes - at);
}

/// Returns the JSON text of a string or of a map of strings.
std::string json_string(const Json& value) {
  try {
    return value.dump();
  } catch (const Json::exception&) {
    fail(Code::kInvalidArgument, "a tensor name or metadata text is not valid UTF-8");
  }
}

}  // namespace

std::optional<DType> dtype_from_name(std::string_view name) {
  const KnownType* type = find_type(name);
  return type == nullptr ? std::nullopt : type->dtype;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsFile SafetensorsFile::open(const Folder& folder, const std::string& name, Links links) {
  SafetensorsFile result;
  result.file_ = folder.open_file(name, links);
  const std::string& path = result.path();
  const int64_t file_bytes = result.file_.size();
  if (file_bytes < 10)
    fail(Code::kCheckpointCorrupt, "{} has {} bytes; a safetensors file has at least 10", path, file_bytes);
  uint8_t length[8];
  result.file_.read_at(0, length, 8);
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | length[i];
  if (header_bytes < 2)
    fail(Code::kCheckpointCorrupt, "{}: the header has {} bytes, at least 2 are needed", path, header_bytes);
  const uint64_t most = static_cast<uint64_t>(std::min(kMaxHeaderBytes, file_bytes - 8));
  if (header_bytes > most)
    fail(Code::kCheckpointCorrupt,
         "{}: its first 8 bytes say that the header has {} bytes, but at most {} are possible; the file is "
         "damaged or "
         "not a safetensors file",
         path, header_bytes, most);
  std::string header(header_bytes, '\0');
  result.file_.read_at(8, header.data(), static_cast<int64_t>(header_bytes));
  if (header[0] != '{')
    fail(Code::kCheckpointCorrupt, "{}: the header does not start with '{{'; this is not a safetensors file",
         path);
  HeaderHandler handler(path, &result.tensors_, &result.metadata_);
  if (!Json::sax_parse(header, &handler))
    fail(Code::kCheckpointCorrupt, "{}: the header is not valid JSON", path);
  result.data_begin_ = 8 + static_cast<int64_t>(header_bytes);
  check_layout(path, result.data_begin_, file_bytes - result.data_begin_, &result.tensors_);
  for (size_t i = 0; i < result.tensors_.size(); ++i) result.by_name_[result.tensors_[i].name] = i;
  return result;
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

void SafetensorsFile::read(const TensorInfo& tensor, int64_t offset, void* dst, int64_t bytes) const {
  HWS_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= tensor.bytes());
  file_.read_at(tensor.begin + offset, dst, bytes);
}

std::string safetensors_header(std::vector<TensorInfo>* tensors,
                               const std::map<std::string, std::string>& metadata) {
  // Without the JSON library, whose ordered object compares each of many thousand names with all others.
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + json_string(metadata);
  std::unordered_set<std::string> names;
  int64_t at = 0;
  for (TensorInfo& tensor : *tensors) {
    if (!is_tensor_name(tensor.name) || tensor.name == "__metadata__")
      fail(Code::kInvalidArgument, "a tensor cannot be stored under the name {}", in_quotes(tensor.name));
    if (!names.insert(tensor.name).second)
      fail(Code::kInvalidArgument, "two tensors have the name {}", in_quotes(tensor.name));
    const KnownType* type = find_type(tensor.dtype);
    const bool sizes_ok =
        std::all_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t d) { return d >= 0; });
    std::optional<int64_t> bytes;
    if (type != nullptr && sizes_ok) bytes = tensor_bytes(tensor.shape, type->bytes);
    tensor.begin = at;
    if (!bytes || tensor.shape.size() > kMaxTensorRank || __builtin_add_overflow(at, *bytes, &at))
      fail(Code::kInvalidArgument, "tensor {} of dtype {} and shape {} cannot be stored",
           in_quotes(tensor.name), tensor.dtype, shape_text(tensor.shape));
    tensor.end = at;
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", json_string(tensor.name), tensor.dtype,
                        fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  if (static_cast<int64_t>(text.size()) > kMaxHeaderBytes)
    fail(Code::kInvalidArgument, "the header of {} tensors has {} bytes; at most {} are possible",
         tensors->size(), text.size(), kMaxHeaderBytes);
  std::string header(8, '\0');
  for (size_t i = 0; i < 8; ++i) header[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  header += text;
  for (TensorInfo& tensor : *tensors) {
    tensor.begin += static_cast<int64_t>(header.size());
    tensor.end += static_cast<int64_t>(header.size());
  }
  return header;
}

}  // namespace hawser::checkpoint
