// RLIMIT_FSIZE: a write beyond it fails with EFBIG, but first the system sends SIGXFSZ, which by default ends
// the process. The library may not change the host program's handlers, so it blocks the signal while it
// writes.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace hawser {

/// While this object exists, a write of this thread beyond the limit only fails. The system sends the signal
/// to the writing thread, so this object blocks it there, and consumes a pending one before it restores the
/// thread's mask. It preserves errno.
class FileSizeSignalBlocked {
 public:
  FileSizeSignalBlocked() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalBlocked() {
    const int error = errno;
    const timespec now = {0, 0};
    while (!was_pending_ && sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  FileSizeSignalBlocked(const FileSizeSignalBlocked&) = delete;
  FileSizeSignalBlocked& operator=(const FileSizeSignalBlocked&) = delete;

 private:
  sigset_t signal_, before_;
  bool was_pending_ = false;
};

}  // namespace hawser
