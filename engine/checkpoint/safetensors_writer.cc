#include "engine/checkpoint/safetensors_writer.h"

#include <utility>

#include "engine/base/error.h"

namespace hawser::checkpoint {

SafetensorsWriter::SafetensorsWriter(const Folder& folder, const std::string& name,
                                     std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)) {
  const std::string header = safetensors_header(&tensors_, metadata);
  file_ = folder.create_file(name);
  append(header.data(), static_cast<int64_t>(header.size()));
}

void SafetensorsWriter::append(const void* data, int64_t bytes) {
  digest_.add(data, bytes);
  file_.write(data, bytes);
  bytes_ += bytes;
}

void SafetensorsWriter::finish() {
  HWS_CHECK(tensors_.empty() || bytes_ == tensors_.back().end);
  file_.sync();
  file_.close();
}

}  // namespace hawser::checkpoint
