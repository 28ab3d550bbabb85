// SafetensorsWriter: writes one safetensors file front to back and digests its bytes in memory before each
// write.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/block_writer.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/safetensors.h"

namespace hawser::checkpoint {

class SafetensorsWriter {
 public:
  /// Creates the file (which must not exist) and writes the header.
  SafetensorsWriter(const Folder& folder, const std::string& name, std::vector<TensorInfo> tensors,
                    const std::map<std::string, std::string>& metadata);
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  ///< with begin and end
  /// Appends the next bytes of the data, tensor after tensor. Also adds them to `part`, if not null.
  void append(const void* data, int64_t bytes, Digest* part = nullptr);
  /// Flushes to disk and closes; call it after the last byte.
  void finish();
  int64_t bytes() const { return bytes_; }               ///< size of the file so far
  std::string digest() const { return digest_.text(); }  ///< digest of the file so far

 private:
  std::vector<TensorInfo> tensors_;
  std::optional<BlockWriter> file_;
  Digest digest_;
  int64_t bytes_ = 0;
};

}  // namespace hawser::checkpoint
