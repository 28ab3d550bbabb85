#include "engine/comm/shm/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/file_size_signal.h"

namespace hawser::comm {
namespace {

/// The byte that is sent: with the descriptor, or without one if there is no memory.
constexpr char kPassed = 'm', kNone = '-';
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Buffer for one descriptor that accompanies a message.
union Beside {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr aligned;
};

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

bool SharedMemory::map(int fd, int64_t bytes) {
  void* const data =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) return false;
  data_ = data;
  bytes_ = bytes;
  return true;
}

SharedMemory SharedMemory::make(int64_t bytes, std::string* why) {
  const FileSizeSignalBlocked no_signal;  // the limit on file sizes applies to memory too
  SharedMemory memory;
  memory.file_ = Socket(memfd_create("hawser", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = memory.file_.fd();
  // fallocate fails if there is not enough memory; without it, a later access would end the process.
  if (fd >= 0 && fallocate(fd, 0, 0, bytes) == 0 && fcntl(fd, F_ADD_SEALS, kSeals) == 0 &&
      memory.map(fd, bytes))
    return memory;
  *why = error_text(errno);
  return {};
}

bool SharedMemory::pass(const Socket& socket) {
  char mark = open() ? kPassed : kNone;
  iovec part{&mark, 1};
  Beside beside{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (open()) {
    message.msg_control = beside.bytes;
    message.msg_controllen = sizeof(beside.bytes);
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = file_.fd();
    std::memcpy(CMSG_DATA(head), &fd, sizeof(fd));
  }
  const bool sent = ::sendmsg(socket.fd(), &message, MSG_NOSIGNAL) == 1;
  file_.close();
  return sent;
}

bool SharedMemory::receive(const Socket& socket, int64_t bytes, double deadline, int interrupt,
                           SharedMemory* out) {
  pollfd entries[2] = {{socket.fd(), POLLIN, 0}, {interrupt, POLLIN, 0}};
  if (poll(entries, 2, milliseconds_until(deadline)) <= 0 || entries[1].revents != 0) return false;
  char mark = 0;
  iovec part{&mark, 1};
  Beside beside{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside.bytes;
  message.msg_controllen = sizeof(beside.bytes);
  if (::recvmsg(socket.fd(), &message, MSG_CMSG_CLOEXEC) != 1) return false;
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(head), sizeof(fd));
  Socket file(fd);
  if (mark == kNone) return true;
  struct stat status {};
  if (!file.open() || fstat(fd, &status) != 0 || status.st_size != bytes ||
      (fcntl(fd, F_GET_SEALS) & kSeals) != kSeals) {
    fail(Code::kUnavailable, "the memory that another rank shares does not have the fixed size of {} bytes",
         bytes);
  }
  if (!out->map(fd, bytes)) {
    fail(Code::kUnavailable, "{} bytes of memory shared with another rank cannot be mapped: {}", bytes,
         error_text(errno));
  }
  return true;
}

}  // namespace hawser::comm
