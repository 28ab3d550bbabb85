// Safetensors reader: an independent reader, so that golden_check compares the library's output with bytes
// that the library never touched. It reads complete files into memory, because golden cases are small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::golden {

/// One tensor as stored: little-endian bytes, row-major.
struct StoredTensor {
  std::string dtype;  ///< as safetensors spells it: F64, F32, BF16, F16, I64, I32, ...
  std::vector<int64_t> shape;
  std::vector<char> bytes;

  int64_t count() const;
  std::vector<double> as_doubles() const;  ///< F64, F32, BF16, F16; throws std::runtime_error for others
  std::vector<int32_t> as_int32() const;   ///< I64, I32; throws if a value does not fit
};

using Tensors = std::map<std::string, StoredTensor>;

/// Returns all tensors of one file. Throws std::runtime_error with the path for anything malformed.
Tensors read_safetensors(const std::string& path);

/// Returns all tensors of a Hugging Face folder: model.safetensors, or every file that its index names.
Tensors read_model_folder(const std::string& folder);

/// Returns a complete file as text. Throws std::runtime_error with the path.
std::string read_text(const std::string& path);

/// Returns "[2, 3]".
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace hawser::golden
