// Buffer: bytes that the library returns to the host program. It is immutable, so any thread may read it.
#pragma once

#include <cstring>
#include <memory>
#include <string_view>

#include "capi/include/hawser.h"
#include "capi/src/handle_table.h"

namespace hawser::capi {

/// A copy of `bytes`, aligned for any element type, with a NUL after its end.
class Buffer : public Object {
 public:
  static constexpr HandleType kType = HandleType::kBuffer;
  Buffer(const void* bytes, size_t size) : data_(new char[size + 1]), size_(size) {
    if (size > 0) std::memcpy(data_.get(), bytes, size);
    data_[size] = '\0';
  }
  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<char[]> data_;
  size_t size_;
};

inline void publish_bytes(const void* bytes, size_t size, hws_buffer** out) {
  publish(std::make_unique<Buffer>(bytes, size), out);
}
inline void publish_text(std::string_view text, hws_buffer** out) {
  publish_bytes(text.data(), text.size(), out);
}

}  // namespace hawser::capi
