// Safetensors: reads and writes the format. A file has an 8-byte little-endian header length, a JSON header
// (name -> dtype, shape, data_offsets), then the tensors' bytes without holes.
// https://github.com/huggingface/safetensors (format section of its README). Files are untrusted: every size
// is checked against the file before anything is allocated from it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/checkpoint/file_io.h"

namespace hawser::checkpoint {

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;  // limit of the reference implementation
inline constexpr size_t kMaxTensorRank = 8;
inline constexpr size_t kMaxTensorName = 512;

/// Returns the dtype for a safetensors name, or nothing if Hawser does not use it (BOOL, F8_E4M3, C64, ...).
std::optional<DType> dtype_from_name(std::string_view name);

struct TensorInfo {
  std::string name;
  std::string dtype;  ///< as spelled in the file
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  ///< byte range, from the start of the file
  int64_t bytes() const { return end - begin; }
};

std::string shape_text(const std::vector<int64_t>& shape);  ///< "[2, 3]"

/// An open safetensors file whose header has been checked. Const members are thread-safe.
class SafetensorsFile {
 public:
  /// Throws kNotFound, kIo, kPermission, kCheckpointCorrupt (file, tensor and what is wrong).
  static SafetensorsFile open(const Folder& folder, const std::string& name, Links links = Links::kRefuse);

  const std::string& path() const { return file_.path(); }
  const File& file() const { return file_; }
  File take_file() { return std::move(file_); }  ///< this object can no longer be read from
  int64_t data_begin() const { return data_begin_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  ///< in order of their bytes
  const TensorInfo* find(const std::string& name) const;               ///< null if there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Reads bytes [offset, offset + bytes) of a tensor.
  void read(const TensorInfo& tensor, int64_t offset, void* dst, int64_t bytes) const;

 private:
  File file_;
  int64_t data_begin_ = 0;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

/// Returns the header of a file to be written for these tensors and fills in their `begin` and `end`. Throws
/// kInvalidArgument for a name, rank or size that the format cannot hold.
std::string safetensors_header(std::vector<TensorInfo>* tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace hawser::checkpoint
