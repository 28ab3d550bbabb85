#include "engine/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace hawser::checkpoint {
namespace {

constexpr int64_t kPass = 64 * 1024;  // read once from memory, later from the nearest cache

}  // namespace

SafetensorsWriter::SafetensorsWriter(const Folder& folder, const std::string& name,
                                     std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)) {
  const std::string header = safetensors_header(&tensors_, metadata);
  const int64_t header_bytes = static_cast<int64_t>(header.size());
  file_.emplace(folder.create_file(name), tensors_.empty() ? header_bytes : tensors_.back().end);
  append(header.data(), header_bytes);
}

void SafetensorsWriter::append(const void* data, int64_t bytes, Digest* part) {
  const char* const from = static_cast<const char*>(data);
  for (int64_t at = 0; at < bytes; at += kPass) {
    const int64_t n = std::min(kPass, bytes - at);
    digest_.add(from + at, n);
    if (part != nullptr) part->add(from + at, n);
    file_->append(from + at, n);
  }
  bytes_ += bytes;
}

void SafetensorsWriter::finish() {
  HWS_CHECK(tensors_.empty() || bytes_ == tensors_.back().end);
  file_->finish();
}

}  // namespace hawser::checkpoint
