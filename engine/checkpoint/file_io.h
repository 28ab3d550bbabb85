// File access: all file operations of checkpoints and conversion. They open only regular files inside the
// folder where they were looked up, never a link, FIFO or device. Writes are complete or fail. Each error
// names the operation, the path and the cause. Nothing else in this folder makes a system call, so a test can
// make the N-th one fail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hawser::checkpoint {

/// An open regular file. Move-only; the destructor closes without a check, so writers call close().
class File {
 public:
  File() = default;
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  File(File&& other) noexcept { swap(other); }
  File& operator=(File&& other) noexcept {
    swap(other);
    return *this;
  }
  ~File();

  const std::string& path() const { return path_; }  ///< for messages
  int64_t size() const;                              ///< current size in bytes
  /// Fills dst; const and thread-safe. Throws kIo, or kCheckpointCorrupt if the file ends before offset +
  /// bytes.
  void read_at(int64_t offset, void* dst, int64_t bytes) const;
  /// Appends all bytes. Throws kIo, also beyond the process's limit on file sizes; the caller then abandons
  /// the file.
  void write(const void* data, int64_t bytes);
  /// Requests writes that bypass the page cache; a file system may refuse. A write whose memory, offset or
  /// size is not a multiple of 4096 goes through the cache.
  void set_direct(bool direct) noexcept;
  void sync();
  void close();

 private:
  void swap(File& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(direct_, other.direct_);
    path_.swap(other.path_);
  }
  int fd_ = -1;
  bool direct_ = false;
  std::string path_;
};

/// Handling of symbolic links in place of files.
enum class Links {
  kRefuse,
  /// Follows links to a regular file anywhere. Model files in the Hub's cache are links into its `blobs/`;
  /// since huggingface_hub 2, these are links too, into a store that models share.
  kFollow,
};

/// An open directory; files are looked up relative to it by plain names.
class Folder {
 public:
  Folder() = default;
  Folder(Folder&& other) noexcept { swap(other); }
  Folder& operator=(Folder&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Folder();

  /// Throws kNotFound (also if it is not a directory), kPermission, kIo.
  static Folder open(std::string path);
  /// Creates a new directory. Throws kAlreadyExists, kPermission, kIo.
  static Folder create(const std::string& path);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const { return path_ + "/" + std::string(name); }
  bool is_open() const { return fd_ >= 0; }
  /// Returns the folder's current path, even after it was moved, if /proc is available; else path().
  /// Thread-safe.
  std::string current_path() const;
  bool was_removed() const;

  /// Opens a regular file for reading. Throws kNotFound; kCheckpointCorrupt for a link, FIFO, device or
  /// directory.
  File open_file(const std::string& name, Links links = Links::kRefuse) const;
  /// Reads the complete file. Throws kCheckpointCorrupt if it is larger than max_bytes.
  std::string read_file(const std::string& name, int64_t max_bytes, Links links = Links::kRefuse) const;
  File create_file(
      /// Creates a file for writing; throws kAlreadyExists, kPermission, kIo
      const std::string& name) const;
  Folder open_folder(const std::string& name) const;
  Folder create_folder(const std::string& name) const;
  /// Renames within the folder, even after the folder was moved; throws kAlreadyExists if `to` exists.
  void rename_new(const std::string& from, const std::string& to) const;
  bool remove_tree(const std::string& name) const noexcept;  ///< see the free function remove_tree
  bool has_file(const std::string& name, Links links = Links::kRefuse) const;

  struct Entry {
    std::string name;
    bool is_folder = false;
  };
  /// Lists all entries except . and .., sorted by name. Throws instead of returning a partial list.
  std::vector<Entry> list() const;
  void sync() const;
  /// Takes the folder's advisory lock without waiting. The lock lasts until the folder is closed or the
  /// process ends. Returns false if another holder has it or the file system has no locks.
  bool lock() const;

 private:
  Folder(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  void swap(Folder& other) noexcept {
    std::swap(fd_, other.fd_);
    path_.swap(other.path_);
  }
  int fd_ = -1;
  std::string path_;
};

/// True if the name can be that of an entry of a folder: not empty, `.` or `..`, at most 255 bytes, without
/// '/' and control characters.
bool is_plain_name(std::string_view name);

struct SplitPath {
  std::string parent;  ///< "." if the path has none
  std::string name;
};
/// Throws kInvalidArgument for a path without a name at its end ("/", "..", "").
SplitPath split_path(const std::string& path);

/// True if the path exists; a dangling link counts. Throws kPermission or kIo if that cannot be determined.
bool path_exists(const std::string& path);
/// Creates the directory and its parents, each durable in its parent.
void make_folders(const std::string& path);
/// Returns 16 random hex digits, for unique names.
std::string unique_suffix();
/// Renames; throws kAlreadyExists if `to` exists.
void rename_new(const std::string& from, const std::string& to);
/// Atomically exchanges two names of one file system. Returns false if the file system does not support it;
/// throws like rename_new for other failures.
bool exchange_names(const std::string& a, const std::string& b);
/// Renames, replacing what is there.
void rename_over(const std::string& from, const std::string& to);
/// Removes a file or a directory tree without following links. Never throws; returns false if something
/// remains.
bool remove_tree(const std::string& path) noexcept;

}  // namespace hawser::checkpoint
