// Descriptors among a host's others. A host may have closed 0, 1 or 2 and print all the same: what the library
// opens and writes must not be what that lands in.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace hawser {

/// A new descriptor, moved if it took the place of a standard one; negative as it came, or if there is no
/// other place for it (errno says why). What another thread writes in between it still receives: for sockets,
/// whose other side checks what it reads.
inline int beyond_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

/// While it lives, nothing that is opened takes the place of a standard descriptor: those that are closed are
/// copies of `source`, a descriptor that nobody can write to. Nothing lands there, not even for a moment.
class StandardDescriptorsTaken {
 public:
  explicit StandardDescriptorsTaken(int source) {
    for (int fd; (fd = fcntl(source, F_DUPFD_CLOEXEC, 0)) >= 0;) {
      if (fd > STDERR_FILENO) {
        close(fd);
        break;
      }
      taken_[count_++] = fd;
    }
  }
  ~StandardDescriptorsTaken() {
    const int error = errno;
    while (count_ > 0) close(taken_[--count_]);
    errno = error;
  }
  StandardDescriptorsTaken(const StandardDescriptorsTaken&) = delete;
  StandardDescriptorsTaken& operator=(const StandardDescriptorsTaken&) = delete;

 private:
  int taken_[STDERR_FILENO + 1] = {};
  int count_ = 0;
};

}  // namespace hawser
