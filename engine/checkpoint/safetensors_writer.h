// Writes one safetensors file front to back. Bytes are digested in memory before each write.
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
  /// Makes the file (which must not exist) and writes the header.
  SafetensorsWriter(const Folder& folder, const std::string& name, std::vector<TensorInfo> tensors,
                    const std::map<std::string, std::string>& metadata);
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  ///< with begin and end
  /// Appends the next bytes of the data, tensor after tensor. Also adds them to `part`, if not null.
  void append(const void* data, int64_t bytes, Digest* part = nullptr);
  /// Call after the last byte: flushes to disk and closes.
  void finish();
  int64_t bytes() const { return bytes_; }               ///< of the file so far
  std::string digest() const { return digest_.text(); }  ///< of the file so far

 private:
  std::vector<TensorInfo> tensors_;
  std::optional<BlockWriter> file_;
  Digest digest_;
  int64_t bytes_ = 0;
};

}  // namespace hawser::checkpoint
