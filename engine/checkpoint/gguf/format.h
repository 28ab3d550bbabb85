// GGUF: writes the file format of llama.cpp, version 3
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). A file has a header with typed metadata and a
// list of tensors, then the bytes of the tensors, each aligned to 32. All numbers are little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/block_writer.h"

namespace hawser::checkpoint::gguf {

/// Types of tensors; the enumerators have the numbers of ggml. Q8_0 stores 32 numbers as an f16 scale and 32
/// signed bytes.
enum class Type : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kBf16 = 30 };

inline constexpr int64_t kQ8Numbers = 32, kQ8Bytes = 34;

/// Returns the type for f32, f16, bf16 or q8_0; nothing for any other name.
std::optional<Type> type_from_name(std::string_view name);
const char* type_name(Type type);
/// Returns the bytes of n numbers; n must be a multiple of 32 for Q8_0.
int64_t type_bytes(Type type, int64_t n);
/// Writes n numbers to `dst`. Q8_0 rounds as ggml's own encoder does. Returns the index of the first number
/// that the type cannot hold, or -1.
int64_t encode(Type type, const float* values, int64_t n, char* dst);

/// Metadata: keys with typed values, in the order in which they were added.
class Metadata {
 public:
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<float>& values);
  void add(std::string_view key, const std::vector<int32_t>& values);
  void add(std::string_view key, const std::vector<bool>& values);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, uint32_t type);
  uint64_t count_ = 0;
  std::string bytes_;
};

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;  ///< the last dim is contiguous, as everywhere in Hawser
  Type type = Type::kF32;
  int64_t numbers() const;
};

/// Writer: writes one file front to back.
class Writer {
 public:
  /// Creates the file `name`, which must not exist, and writes the header.
  Writer(const Folder& folder, const std::string& name, const Metadata& metadata,
         std::vector<TensorInfo> tensors);
  /// Appends the next numbers of the tensors, in order; one call never spans two tensors. Throws kOutOfRange
  /// for a number that the tensor's type cannot hold.
  void append(const float* values, int64_t n);
  /// Flushes to disk and closes; call it after the last number.
  void finish();

 private:
  std::vector<TensorInfo> tensors_;
  size_t tensor_ = 0;  // being written
  int64_t done_ = 0;   // its numbers that are written
  std::optional<BlockWriter> file_;
  std::vector<char> bytes_;
};

}  // namespace hawser::checkpoint::gguf
