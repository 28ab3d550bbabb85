#include "engine/device/cpu/kernel_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace hawser::device {

KernelFile::KernelFile(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  while (size_ < sizeof text_) {
    const ssize_t n = ::read(fd, text_ + size_, sizeof text_ - size_);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size_ += static_cast<size_t>(n);
  }
  ::close(fd);
}

int64_t KernelFile::number_after(std::string_view key) const {
  const size_t at = text().find(key);
  if (at == std::string_view::npos) return -1;
  std::string_view rest = text().substr(at + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  int64_t value = -1;
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return value;
}

}  // namespace hawser::device
