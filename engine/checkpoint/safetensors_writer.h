// Writes one safetensors file front to back. The digest is taken of the bytes in memory, before each write.
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
  /// The next bytes of the data, tensor after tensor; they are added to `part` too, if that is not null.
  void append(const void* data, int64_t bytes, Digest* part = nullptr);
  /// After the last byte: flushed to disk and closed.
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
