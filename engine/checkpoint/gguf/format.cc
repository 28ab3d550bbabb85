#include "engine/checkpoint/gguf/format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/number_format.h"

namespace hawser::checkpoint::gguf {
namespace {

constexpr int64_t kAlignment = 32;
constexpr int64_t kChunk = int64_t{1} << 18;  // numbers per buffer

// The format's numbers for types of values.
constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <typename T>
void put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_text(std::string* out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out->append(text);
}

DType dtype_of(Type type) {
  return type == Type::kF32 ? DType::kF32 : type == Type::kF16 ? DType::kF16 : DType::kBf16;
}

/// Encodes as quantize_row_q8_0_ref of ggml does: the scale is the largest magnitude / 127, and a number is
/// rounded half away from zero after it was multiplied by the inverse of the unrounded scale.
int64_t encode_q8(const float* values, int64_t n, char* dst) {
  for (int64_t block = 0; block < n; block += kQ8Numbers, dst += kQ8Bytes) {
    float largest = 0;
    for (int64_t i = block; i < block + kQ8Numbers; ++i) {
      if (!std::isfinite(values[i])) return i;
      largest = std::max(largest, std::abs(values[i]));
    }
    const float scale = largest / 127.0f, inverse = scale != 0 ? 1.0f / scale : 0.0f;
    if (hf::narrow(DType::kF16, &scale, 1, dst) >= 0) return block;
    for (int64_t i = 0; i < kQ8Numbers; ++i)
      dst[2 + i] = static_cast<char>(static_cast<int8_t>(std::round(values[block + i] * inverse)));
  }
  return -1;
}

std::string header(const Metadata& metadata, const std::vector<TensorInfo>& tensors) {
  std::string bytes = "GGUF";
  put<uint32_t>(&bytes, 3);
  put<uint64_t>(&bytes, tensors.size());
  put<uint64_t>(&bytes, metadata.count());
  bytes += metadata.bytes();
  int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    put_text(&bytes, tensor.name);
    put<uint32_t>(&bytes, static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim)
      put<uint64_t>(&bytes, static_cast<uint64_t>(*dim));
    put<uint32_t>(&bytes, static_cast<uint32_t>(tensor.type));
    put<uint64_t>(&bytes, static_cast<uint64_t>(offset));
    offset += aligned(type_bytes(tensor.type, tensor.numbers()));
  }
  bytes.resize(static_cast<size_t>(aligned(static_cast<int64_t>(bytes.size()))));
  return bytes;
}

}  // namespace

std::optional<Type> type_from_name(std::string_view name) {
  for (const Type type : {Type::kF32, Type::kF16, Type::kBf16, Type::kQ8_0})
    if (name == type_name(type)) return type;
  return std::nullopt;
}

const char* type_name(Type type) {
  switch (type) {
    case Type::kF32:
      return "f32";
    case Type::kF16:
      return "f16";
    case Type::kBf16:
      return "bf16";
    case Type::kQ8_0:
      break;
  }
  return "q8_0";
}

int64_t type_bytes(Type type, int64_t n) {
  return type == Type::kQ8_0 ? n / kQ8Numbers * kQ8Bytes : n * dtype_bytes(dtype_of(type));
}

int64_t encode(Type type, const float* values, int64_t n, char* dst) {
  return type == Type::kQ8_0 ? encode_q8(values, n, dst) : hf::narrow(dtype_of(type), values, n, dst);
}

void Metadata::begin(std::string_view key, uint32_t type) {
  ++count_;
  put_text(&bytes_, key);
  put(&bytes_, type);
}

void Metadata::add(std::string_view key, uint32_t value) {
  begin(key, kUint32);
  put(&bytes_, value);
}

void Metadata::add(std::string_view key, float value) {
  begin(key, kFloat32);
  put(&bytes_, value);
}

void Metadata::add(std::string_view key, bool value) {
  begin(key, kBool);
  put<uint8_t>(&bytes_, value ? 1 : 0);
}

void Metadata::add(std::string_view key, std::string_view value) {
  begin(key, kString);
  put_text(&bytes_, value);
}

void Metadata::add(std::string_view key, const std::vector<std::string>& values) {
  begin(key, kArray);
  put(&bytes_, kString);
  put<uint64_t>(&bytes_, values.size());
  for (const std::string& value : values) put_text(&bytes_, value);
}

void Metadata::add(std::string_view key, const std::vector<float>& values) {
  begin(key, kArray);
  put(&bytes_, kFloat32);
  put<uint64_t>(&bytes_, values.size());
  for (const float value : values) put(&bytes_, value);
}

void Metadata::add(std::string_view key, const std::vector<int32_t>& values) {
  begin(key, kArray);
  put(&bytes_, kInt32);
  put<uint64_t>(&bytes_, values.size());
  for (const int32_t value : values) put(&bytes_, value);
}

void Metadata::add(std::string_view key, const std::vector<bool>& values) {
  begin(key, kArray);
  put(&bytes_, kBool);
  put<uint64_t>(&bytes_, values.size());
  for (const bool value : values) put<uint8_t>(&bytes_, value ? 1 : 0);
}

int64_t TensorInfo::numbers() const {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

Writer::Writer(const Folder& folder, const std::string& name, const Metadata& metadata,
               std::vector<TensorInfo> tensors)
    : tensors_(std::move(tensors)) {
  const std::string first = header(metadata, tensors_);
  int64_t bytes = static_cast<int64_t>(first.size());
  for (const TensorInfo& tensor : tensors_) bytes += aligned(type_bytes(tensor.type, tensor.numbers()));
  file_.emplace(folder.create_file(name), bytes);
  file_->append(first.data(), static_cast<int64_t>(first.size()));
}

void Writer::append(const float* values, int64_t n) {
  const TensorInfo& tensor = tensors_.at(tensor_);
  HWS_CHECK(n <= tensor.numbers() - done_);
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t part = std::min(kChunk, n - at);
    bytes_.resize(static_cast<size_t>(type_bytes(tensor.type, part)));
    const int64_t wrong = encode(tensor.type, values + at, part, bytes_.data());
    if (wrong >= 0)
      fail(Code::kOutOfRange,
           "tensor {} has the value {}, which {} cannot hold; export with dtype bf16 or f32", tensor.name,
           values[at + wrong], type_name(tensor.type));
    file_->append(bytes_.data(), static_cast<int64_t>(bytes_.size()));
  }
  done_ += n;
  if (done_ < tensor.numbers()) return;
  const int64_t bytes = type_bytes(tensor.type, done_);
  constexpr char kZeros[kAlignment] = {};
  file_->append(kZeros, aligned(bytes) - bytes);
  ++tensor_;
  done_ = 0;
}

void Writer::finish() {
  HWS_CHECK(tensor_ == tensors_.size());
  file_->finish();
}

}  // namespace hawser::checkpoint::gguf
