// LineFile: a file of JSON lines that grows. It holds complete lines only: a failed write leaves no part of a
// line.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace hawser::cli {

class LineFile {
 public:
  LineFile() = default;
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;
  ~LineFile();

  /// Opens a file for appending. `flags` are added to those of open(2), such as O_CREAT. Throws Failure.
  void open(const std::string& path, int flags);
  bool is_open() const { return file_ >= 0; }
  /// Appends the line, or throws Failure and leaves the file unchanged. `path` is its current path, for
  /// errors.
  void append(const std::string& line, const std::string& path);

 private:
  int file_ = -1;
  off_t torn_at_ = -1;  // offset of an incomplete line that could not be removed; -1: none
};

/// Writes all of the text, or throws Failure.
void write_all(int file, std::string_view text, const std::string& path);

}  // namespace hawser::cli
