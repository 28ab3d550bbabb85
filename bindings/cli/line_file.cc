#include "bindings/cli/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "bindings/cli/client.h"
#include "bindings/cli/file_failure.h"

namespace hawser::cli {

LineFile::LineFile(LineFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), torn_at_(std::exchange(other.torn_at_, -1)) {}

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(torn_at_, other.torn_at_);
  return *this;
}

LineFile::~LineFile() {
  if (file_ >= 0) ::close(file_);
}

void LineFile::open(const std::string& path, int flags) {
  LineFile next;
  next.file_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666);
  if (next.file_ < 0) fail_file("cannot open " + path, errno);
  *this = std::move(next);
}

void LineFile::append(const std::string& line, const std::string& path) {
  if (torn_at_ >= 0 && ftruncate(file_, torn_at_) != 0)
    fail_file("cannot remove an incomplete row from " + path, errno);
  torn_at_ = -1;
  const off_t end = lseek(file_, 0, SEEK_END);
  if (end < 0) fail_file("cannot find the end of " + path, errno);
  try {
    write_all(file_, line + "\n", path);
  } catch (const Failure&) {  // otherwise the next row joins the partial one, and neither is readable
    if (ftruncate(file_, end) != 0) torn_at_ = end;
    throw;
  }
}

void write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("cannot write " + path, errno);
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace hawser::cli
