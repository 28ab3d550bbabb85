// MappedFile: a file's bytes, mapped read-only. Token files and checkpoint shards are larger than memory may
// be, so nothing is read until it is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hawser {

/// Owns one mapping; movable, not copyable; const use is thread-safe. The file descriptor is closed once
/// mapped. A file that shrinks while it is mapped cannot be read safely (the kernel raises SIGBUS): replace
/// files by rename, which leaves existing mappings intact.
class MappedFile {
 public:
  MappedFile() = default;  ///< maps nothing: size 0, empty path
  /// Maps the whole regular file at `path`. An empty file maps to size 0 with data() == nullptr. Never
  /// blocks. Throws kNotFound (no such file), kPermission, kInvalidArgument (a directory, FIFO, socket or
  /// device, or a path with a NUL), kOutOfMemory (no address space) or kIo; each names the path.
  static MappedFile open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// First byte, page-aligned; valid as long as this object lives.
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }  ///< bytes
  const std::string& path() const { return path_; }

  /// Whether bytes [offset, offset + bytes) lie inside the file; safe for any values, including those whose
  /// sum overflows. Ask it before using a length that a file states about itself.
  bool contains(uint64_t offset, uint64_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }

 private:
  void unmap() noexcept;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace hawser
