// Descriptors among a host's others. A host may have closed 0, 1 or 2 and print all the same: what the
// library opens and writes must not be what that lands in.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace hawser {

/// A new descriptor, moved if it took the place of a standard one; negative as it came, or if there is no
/// other place for it (errno says why).
inline int beyond_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

}  // namespace hawser
