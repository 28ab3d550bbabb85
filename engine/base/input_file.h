// InputFile: a data file with random access. Token files may be larger than memory, so it reads only what is
// requested. The file may be truncated at any time. With a mapping that would end the process (SIGBUS), so it
// uses system calls, which merely fail.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hawser {

/// Owns a descriptor; movable, not copyable; const use is thread-safe. Processes are often limited to 1,024
/// open files. If many are open, this object closes its descriptor and reopens the file for each read.
class InputFile {
 public:
  InputFile() = default;  ///< no file: size 0, empty path
  /// Opens the regular file at `path`; follows links. Never blocks. Throws kNotFound (no such file),
  /// kPermission, kInvalidArgument (a directory, FIFO, socket or device, or a path with a NUL) or kIo; each
  /// names the path.
  static InputFile open(const std::string& path);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  int64_t size() const { return size_; }  ///< bytes, when it was opened
  const std::string& path() const { return path_; }
  /// Reads bytes [offset, offset + bytes), which must lie inside [0, size()), into dst. Allocates nothing.
  /// Throws kDataInvalid if the file has been truncated or its name now belongs to another file; kIo.
  void read_at(int64_t offset, void* dst, int64_t bytes) const;

  /// True if bytes [offset, offset + bytes) lie inside the file; safe for any values, including those whose
  /// sum overflows. Call it before you use a length that a file states about itself.
  bool contains(uint64_t offset, uint64_t bytes) const {
    const uint64_t size = static_cast<uint64_t>(size_);
    return offset <= size && bytes <= size - offset;
  }

 private:
  int reopen() const;

  int fd_ = -1;  ///< -1: opened for each read
  int64_t size_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;  ///< with the device, identifies the file
  std::string path_;
};

/// Reads a file from front to back, a block at a time. One thread uses it; it borrows the file.
class FileWindow {
 public:
  /// `block`: bytes to read at a time, at most 16 KiB.
  explicit FileWindow(const InputFile& file, int64_t block = kBlock)
      : file_(file), most_(std::clamp<int64_t>(block, 1, kBlock)) {}
  FileWindow(const FileWindow&) = delete;
  FileWindow& operator=(const FileWindow&) = delete;

  /// Returns the bytes from `offset` (at most the file's size) on: at least `least` (at most 16 KiB) of them,
  /// fewer only at the end of the file. They are valid until the next call. Throws what read_at throws.
  std::string_view at(int64_t offset, int64_t least) {
    if (offset < begin_ || offset + least > begin_ + bytes_) load(offset, least);
    return {block_ + (offset - begin_), static_cast<size_t>(begin_ + bytes_ - offset)};
  }

 private:
  static constexpr int64_t kBlock = 16 * 1024;
  void load(int64_t offset, int64_t least);

  const InputFile& file_;
  const int64_t most_;
  int64_t begin_ = 0, bytes_ = 0;
  char block_[kBlock];
};

}  // namespace hawser
