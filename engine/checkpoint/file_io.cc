#include "engine/checkpoint/file_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "engine/base/descriptor.h"
#include "engine/base/error.h"
#include "engine/base/file_size_signal.h"

namespace hawser::checkpoint {
namespace {

constexpr int kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int64_t kMaxTransfer = int64_t{1} << 30;  // one system call moves at most 2 GiB

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another place";
    case EROFS:
      return "; choose a place that can be written";
    case EACCES:
    case EPERM:
      return "; change the permissions or choose another place";
    case EFBIG:
      return "; the process has a limit on file sizes";
    case EMFILE:
    case ENFILE:
      return "; too many files are open";
    default:
      return "";
  }
}

[[noreturn]] void fail_errno(const char* action, const std::string& path, int error) {
  Code code = Code::kIo;
  if (error == ENOENT || error == ENOTDIR) code = Code::kNotFound;
  if (error == EEXIST || error == ENOTEMPTY) code = Code::kAlreadyExists;
  if (error == EACCES || error == EPERM || error == EROFS) code = Code::kPermission;
  if (error == ENOMEM) code = Code::kOutOfMemory;
  char text[128];
  const char* cause = strerror_r(error, text, sizeof text);  // GNU form: may or may not use the buffer
  fail(code, "cannot {} {}: {}{}", action, path, cause, advice(error));
}

template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

bool same_folder(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Implements Folder::rename_new; `where` is for messages.
void rename_at(int folder, const char* from, const char* to, const std::string& where) {
  if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) return;
  // Some file systems lack this flag. After the check below, rename replaces at most an empty directory.
  if (errno != EINVAL && errno != ENOSYS) fail_errno("rename to", where, errno);
  struct stat status;
  if (fstatat(folder, to, &status, AT_SYMLINK_NOFOLLOW) == 0) fail_errno("rename to", where, EEXIST);
  if (renameat(folder, from, folder, to) != 0) fail_errno("rename to", where, errno);
}

/// Closes the descriptor and throws unless it is a regular file.
void require_regular(int fd, const std::string& path) {
  struct stat status;
  if (fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    fail_errno("look at", path, error);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    fail(Code::kCheckpointCorrupt, "{} is not a regular file; links, FIFOs and devices are not read", path);
  }
}

/// Opens the regular file that a link leads to. Checks the type first, because opening a device may have
/// effects.
int open_link(int folder, const std::string& name, const std::string& path) {
  struct stat status;
  if (fstatat(folder, name.c_str(), &status, 0) != 0) {
    if (errno == ENOENT)
      fail(Code::kCheckpointCorrupt, "{} is a link to a file that does not exist; download the model again",
           path);
    fail_errno("open", path, errno);
  }
  if (!S_ISREG(status.st_mode))
    fail(Code::kCheckpointCorrupt, "{} is a link to something that is not a regular file", path);
  const int fd = retry([&] { return openat(folder, name.c_str(), kReadFlags & ~O_NOFOLLOW); });
  if (fd < 0) fail_errno("open", path, errno);
  require_regular(fd, path);
  return fd;
}

/// Reads a folder's names with a system call, because opendir allocates. Rereads from the beginning until
/// nothing is left to remove: names may be skipped while others are removed.
bool remove_at(int folder, const char* name, int depth) noexcept;
void remove_entries(int fd, int depth) noexcept {
  alignas(dirent64) char block[2048];
  for (bool removed = true; removed && lseek(fd, 0, SEEK_SET) == 0;) {
    removed = false;
    for (long got; (got = syscall(SYS_getdents64, fd, block, sizeof(block))) > 0;) {
      for (const char* at = block; at < block + got;) {
        const auto* const entry = reinterpret_cast<const dirent64*>(at);
        at += entry->d_reclen;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        removed |= remove_at(fd, entry->d_name, depth + 1);
      }
    }
  }
}

bool remove_at(int folder, const char* name, int depth) noexcept {
  if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return true;
  if ((errno != EISDIR && errno != EPERM) || depth > 8) return false;
  const int fd = openat(folder, name, kFolderFlags | O_NOFOLLOW);
  if (fd < 0) return false;
  remove_entries(fd, depth);
  ::close(fd);
  return unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

}  // namespace

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

int64_t File::size() const {
  struct stat status;
  if (fstat(fd_, &status) != 0) fail_errno("look at", path_, errno);
  return status.st_size;
}

void File::read_at(int64_t offset, void* dst, int64_t bytes) const {
  char* to = static_cast<char*>(dst);
  while (bytes > 0) {
    const size_t part = static_cast<size_t>(std::min(bytes, kMaxTransfer));
    const ssize_t n = retry([&] { return pread(fd_, to, part, offset); });
    if (n < 0) fail_errno("read", path_, errno);
    if (n == 0)
      fail(Code::kCheckpointCorrupt, "{} ends at byte {} where {} more are needed; the file was cut short",
           path_, offset, bytes);
    to += n;
    offset += n;
    bytes -= n;
  }
}

void File::write(const void* data, int64_t bytes) {
  const FileSizeSignalBlocked blocked;
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const size_t part = static_cast<size_t>(std::min(bytes, kMaxTransfer));
    const ssize_t n = retry([&] { return ::write(fd_, from, part); });
    if (n < 0 && errno == EINVAL && direct_) {  // this file system or memory does not allow direct writes
      set_direct(false);
      continue;
    }
    if (n < 0) fail_errno("write", path_, errno);
    if (n == 0) fail(Code::kIo, "cannot write {}: the system wrote no bytes", path_);
    from += n;
    bytes -= n;
  }
}

void File::set_direct(bool direct) noexcept {
  if (direct == direct_) return;
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fcntl(fd_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) != 0) return;
  direct_ = direct;
}

void File::sync() {
  if (retry([&] { return fsync(fd_); }) != 0) fail_errno("flush to disk", path_, errno);
}

void File::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail_errno("close", path_, errno);
}

Folder::~Folder() {
  if (fd_ >= 0) ::close(fd_);
}

Folder Folder::open(std::string path) {
  const int fd = retry([&] { return ::open(path.c_str(), kFolderFlags); });
  if (fd < 0) fail_errno("open folder", path, errno);
  return Folder(fd, std::move(path));
}

Folder Folder::create(const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0) fail_errno("make folder", path, errno);
  return open(path);
}

File Folder::open_file(const std::string& name, Links links) const {
  std::string path = path_of(name);
  if (!is_plain_name(name))
    fail(Code::kCheckpointCorrupt, "a file name in folder {} is not a plain name", path_);
  const int fd = retry([&] { return openat(fd_, name.c_str(), kReadFlags); });
  if (fd >= 0) {
    require_regular(fd, path);
    return File(fd, std::move(path));
  }
  if (errno == ENXIO) fail(Code::kCheckpointCorrupt, "{} is not a regular file; sockets are not read", path);
  if (errno != ELOOP) fail_errno("open", path, errno);
  if (links == Links::kRefuse)
    fail(Code::kCheckpointCorrupt, "{} is a symbolic link, which is not followed; put the file itself there",
         path);
  const int target = open_link(fd_, name, path);
  return File(target, std::move(path));
}

std::string Folder::read_file(const std::string& name, int64_t max_bytes, Links links) const {
  const File file = open_file(name, links);
  const int64_t size = file.size();
  if (size > max_bytes)
    fail(Code::kCheckpointCorrupt, "{} has {} bytes; at most {} are read", file.path(), size, max_bytes);
  std::string text(static_cast<size_t>(size), '\0');
  file.read_at(0, text.data(), size);
  return text;
}

File Folder::create_file(const std::string& name) const {
  std::string path = path_of(name);
  if (!is_plain_name(name))
    fail(Code::kInvalidArgument, "a file name for folder {} is not a plain name", path_);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const StandardDescriptorsTaken taken(fd_);
  const int fd = retry([&] { return openat(fd_, name.c_str(), kFlags, 0666); });
  if (fd < 0) fail_errno("create", path, errno);
  return File(fd, std::move(path));
}

Folder Folder::open_folder(const std::string& name) const {
  std::string path = path_of(name);
  const int fd = retry([&] { return openat(fd_, name.c_str(), kFolderFlags | O_NOFOLLOW); });
  if (fd < 0) fail_errno("open folder", path, errno);
  return Folder(fd, std::move(path));
}

Folder Folder::create_folder(const std::string& name) const {
  if (mkdirat(fd_, name.c_str(), 0777) != 0) fail_errno("make folder", path_of(name), errno);
  return open_folder(name);
}

void Folder::rename_new(const std::string& from, const std::string& to) const {
  rename_at(fd_, from.c_str(), to.c_str(), path_of(to));
}

bool Folder::remove_tree(const std::string& name) const noexcept { return remove_at(fd_, name.c_str(), 0); }

std::string Folder::current_path() const {
  struct stat own, there;
  if (fstat(fd_, &own) != 0 || (stat(path_.c_str(), &there) == 0 && same_folder(own, there))) return path_;
  std::string path(PATH_MAX, '\0');
  const ssize_t n = readlink(fmt::format("/proc/self/fd/{}", fd_).c_str(), path.data(), path.size());
  if (n > 0 && n < PATH_MAX) path.resize(static_cast<size_t>(n));
  return n > 0 && stat(path.c_str(), &there) == 0 && same_folder(own, there) ? path : path_;
}

bool Folder::was_removed() const {
  struct stat status;
  return fstat(fd_, &status) == 0 && status.st_nlink == 0;
}

bool Folder::has_file(const std::string& name, Links links) const {
  struct stat status;
  if (fstatat(fd_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) fail_errno("look at", path_of(name), errno);
    return false;
  }
  return S_ISREG(status.st_mode) || (links == Links::kFollow && S_ISLNK(status.st_mode));
}

std::vector<Folder::Entry> Folder::list() const {
  const int fd = retry([&] { return openat(fd_, ".", kFolderFlags); });
  DIR* const dir = fd < 0 ? nullptr : fdopendir(fd);
  if (dir == nullptr) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    fail_errno("list", path_, error);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closes(dir, closedir);
  std::vector<Entry> entries;
  errno = 0;
  for (const dirent* entry; (entry = readdir(dir)) != nullptr; errno = 0) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status;
    if (fstatat(fd_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      entries.push_back({name, S_ISDIR(status.st_mode)});
    else if (errno != ENOENT)  // ENOENT: the entry was removed meanwhile
      fail_errno("look at", path_of(name), errno);
  }
  if (errno != 0) fail_errno("list", path_, errno);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

void Folder::sync() const {
  if (retry([&] { return fsync(fd_); }) != 0) fail_errno("flush to disk folder", path_, errno);
}

bool Folder::lock() const {
  return retry([&] { return flock(fd_, LOCK_EX | LOCK_NB); }) == 0;
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return c != '/' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

SplitPath split_path(const std::string& path) {
  std::string_view rest = path;
  while (rest.size() > 1 && rest.back() == '/') rest.remove_suffix(1);
  const size_t slash = rest.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? rest : rest.substr(slash + 1);
  if (!is_plain_name(name)) fail(Code::kInvalidArgument, "the path '{}' does not end in a name", path);
  if (slash == std::string_view::npos) return {".", std::string(name)};
  return {std::string(rest.substr(0, std::max<size_t>(slash, 1))), std::string(name)};
}

bool path_exists(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail_errno("look at", path, errno);
  return false;
}

void make_folders(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISDIR(status.st_mode)) fail(Code::kNotFound, "{} is not a folder", path);
    return;
  }
  const SplitPath split = split_path(path);
  make_folders(split.parent);
  if (mkdir(path.c_str(), 0777) != 0) {
    if (errno == EEXIST) return;  // another process has created it
    fail_errno("make folder", path, errno);
  }
  Folder::open(split.parent).sync();
}

std::string unique_suffix() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) !=
      sizeof value) {  // no entropy yet: uses time and process id
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    value = (static_cast<uint64_t>(now.tv_nsec) << 32) ^ static_cast<uint64_t>(now.tv_sec) ^
            (static_cast<uint64_t>(getpid()) << 20);
  }
  return fmt::format("{:016x}", value);
}

void rename_new(const std::string& from, const std::string& to) {
  rename_at(AT_FDCWD, from.c_str(), to.c_str(), to);
}

bool exchange_names(const std::string& a, const std::string& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS) return false;
  fail_errno("rename to", b, errno);
}

void rename_over(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail_errno("rename to", to, errno);
}

bool remove_tree(const std::string& path) noexcept { return remove_at(AT_FDCWD, path.c_str(), 0); }

}  // namespace hawser::checkpoint
