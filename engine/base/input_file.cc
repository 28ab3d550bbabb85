// InputFile reads regular files. It opens a file without blocking, so that a FIFO given by mistake is refused
// instead of waited for, and with O_CLOEXEC, so that child processes of the host program do not inherit it.
#include "engine/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"

namespace hawser {
namespace {

/// If a process's descriptor numbers reach this value, it has many files open, and an InputFile keeps none.
constexpr int kKeepBelow = 512;
constexpr int64_t kMaxTransfer = int64_t{1} << 30;  // one system call moves at most 2 GiB

[[noreturn]] void fail_file(Code code, const std::string& path, const std::string& problem) {
  const Json details = {{"file", path}};
  throw Error(code, fmt::format("{}: {}", path, problem),
              details.dump(-1, ' ', false, Json::error_handler_t::replace));
}

[[noreturn]] void fail_errno(const std::string& path, const char* what, int error) {
  Code code = Code::kIo;
  const char* advice = "";
  if (error == ENOENT || error == ENOTDIR) {
    code = Code::kNotFound;
    advice = "; check the path (relative paths start at the working directory)";
  } else if (error == EACCES || error == EPERM) {
    code = Code::kPermission;
    advice = "; make the file readable for this user";
  } else if (error == EMFILE || error == ENFILE) {
    advice = "; too many files are open: give fewer sources or raise the limit (ulimit -n)";
  }
  fail_file(code, path, fmt::format("{}: {}{}", what, std::generic_category().message(error), advice));
}

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "not a regular file";
}

/// Opens the file at `path`; throws if there is no descriptor.
int open_descriptor(const std::string& path) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  if (fd >= 0) return fd;
  const int error = errno;
  if (error == ENXIO) fail_file(Code::kInvalidArgument, path, "is a socket or device; give a regular file");
  fail_errno(path, "cannot open", error);
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    fail_errno(path, "cannot read the file's status", error);
  }
  return status;
}

/// Reads into dst. Returns fewer bytes at the end of the file, or -1 (errno) on failure.
int64_t read_all(int fd, int64_t offset, char* dst, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    const size_t part = static_cast<size_t>(std::min(bytes - done, kMaxTransfer));
    const ssize_t n = ::pread(fd, dst + done, part, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += n;
  }
  return done;
}

}  // namespace

InputFile InputFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    fail(Code::kInvalidArgument, "path '{}' contains a NUL byte; paths end at the first one", path.c_str());
  }
  const int fd = open_descriptor(path);
  const struct stat status = status_of(fd, path);
  InputFile result;
  result.fd_ = fd;
  if (!S_ISREG(status.st_mode)) {
    fail_file(Code::kInvalidArgument, path,
              fmt::format("is {}; give a regular file", kind_name(status.st_mode)));
  }
  result.size_ = status.st_size;
  result.device_ = status.st_dev;
  result.inode_ = status.st_ino;
  result.path_ = path;
  if (result.fd_ >= kKeepBelow) ::close(std::exchange(result.fd_, -1));
  return result;
}

int InputFile::reopen() const {
  const int fd = open_descriptor(path_);
  const struct stat status = status_of(fd, path_);
  if (status.st_dev == device_ && status.st_ino == inode_) return fd;
  ::close(fd);
  fail_file(Code::kDataInvalid, path_,
            "was replaced by another file after it was opened; do not change data while it is used");
}

void InputFile::read_at(int64_t offset, void* dst, int64_t bytes) const {
  const int fd = fd_ >= 0 ? fd_ : reopen();
  const int64_t done = read_all(fd, offset, static_cast<char*>(dst), bytes);
  const int error = errno;
  const off_t end = done < bytes ? ::lseek(fd, 0, SEEK_END) : 0;
  if (fd != fd_) ::close(fd);
  if (done < 0) fail_errno(path_, "cannot read", error);
  if (done < bytes) {
    fail_file(Code::kDataInvalid, path_,
              fmt::format("has {} bytes, but had {} when it was opened; do not change data while it is used",
                          int64_t{end}, size_));
  }
}

InputFile::InputFile(InputFile&& other) noexcept { *this = std::move(other); }

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  path_.swap(other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWindow::load(int64_t offset, int64_t least) {
  const int64_t bytes = std::min({std::max(most_, least), kBlock, file_.size() - offset});
  bytes_ = 0;  // no bytes are valid if reading fails
  file_.read_at(offset, block_, bytes);
  begin_ = offset;
  bytes_ = bytes;
}

}  // namespace hawser
