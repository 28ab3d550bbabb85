// Small files in which the kernel says what this process may use (/proc, /sys). They are read without the
// heap, because they are needed when memory is short and std::ifstream would end the process if it found
// none for its buffer.
#pragma once

#include <cstdint>
#include <string_view>

namespace hawser::device {

class KernelFile {
 public:
  /// The first 4 KiB; empty where there is no such file.
  explicit KernelFile(const char* path);

  std::string_view text() const { return {text_, size_}; }
  /// The number that follows the first `key`, after blanks; -1 without one ("max").
  int64_t number_after(std::string_view key) const;

 private:
  char text_[4096];
  size_t size_ = 0;
};

}  // namespace hawser::device
