// KernelFile: reads small kernel files (/proc, /sys) that state what this process may use. It does not use
// the heap, because these files are read when memory is short, and std::ifstream would end the process if it
// could not allocate its buffer.
#pragma once

#include <cstdint>
#include <string_view>

namespace hawser::device {

class KernelFile {
 public:
  /// Reads the first 4 KiB; leaves the text empty if there is no such file.
  explicit KernelFile(const char* path);

  std::string_view text() const { return {text_, size_}; }
  /// The number after the first `key` and blanks; -1 if there is none ("max").
  int64_t number_after(std::string_view key) const;

 private:
  char text_[4096];
  size_t size_ = 0;
};

}  // namespace hawser::device
