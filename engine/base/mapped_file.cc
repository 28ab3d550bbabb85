// Read-only mapping of regular files. The file is opened without blocking, so that a FIFO given by mistake is
// refused rather than waited for, and with O_CLOEXEC, so that a host's child processes do not inherit it.
#include "engine/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "engine/base/error.h"

namespace hawser {
namespace {

/// Closes on every way out, exceptions included.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_file(Code code, const std::string& path, const std::string& problem) {
  const nlohmann::json details = {{"file", path}};
  throw Error(code, fmt::format("{}: {}", path, problem),
              details.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
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
  } else if (error == ENOMEM) {
    code = Code::kOutOfMemory;
    advice = "; the process has too little address space or too many mappings";
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

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    fail(Code::kInvalidArgument, "path '{}' contains a NUL byte; paths end at the first one", path.c_str());
  }
  Descriptor file;
  do {
    file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (file.fd < 0 && errno == EINTR);
  if (file.fd < 0) {
    const int error = errno;
    if (error == ENXIO) fail_file(Code::kInvalidArgument, path, "is a socket or device; give a regular file");
    fail_errno(path, "cannot open", error);
  }
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) fail_errno(path, "cannot read the file's status", errno);
  if (!S_ISREG(status.st_mode)) {
    fail_file(Code::kInvalidArgument, path,
              fmt::format("is {}; give a regular file", kind_name(status.st_mode)));
  }

  MappedFile result;
  result.path_ = path;
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return result;  // mmap refuses a length of 0
  if (size > std::numeric_limits<size_t>::max()) {
    fail_file(Code::kOutOfMemory, path, fmt::format("{} bytes exceed this machine's address space", size));
  }
  void* address = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED) fail_errno(path, "cannot map into memory", errno);
  result.data_ = static_cast<const uint8_t*>(address);
  result.size_ = static_cast<size_t>(size);
  return result;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    path_ = std::move(other.path_);
  }
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace hawser
