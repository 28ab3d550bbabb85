// Keeps file descriptors clear of 0, 1 and 2. A host program may have closed those and still print to them;
// its output must not land in a file that the library opened.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace hawser {

/// Moves a new descriptor above 2 if it got the number of a standard one. Returns a negative number if `fd`
/// is negative or the move fails (errno has the reason). Output that another thread prints before the move
/// still reaches the file, so use this function for sockets, whose peers check what they read.
inline int beyond_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

/// While this object exists, closed standard descriptors are copies of `source`, which must not be writable.
/// No file opened meanwhile can get their numbers, not even for a moment.
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
