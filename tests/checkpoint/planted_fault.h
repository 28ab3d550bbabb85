// Planted fault: makes the N-th of the system calls fail that a test replaces at link time (--wrap).
#pragma once

#include <errno.h>

namespace hawser::checkpoint {

struct Fault {
  int countdown = -1;  // calls until one fails; negative: none fails
  int error = 0;
  bool happened = false;
};

inline Fault fault;

/// Called by each replaced call; returns true, with errno set, if it must fail.
inline bool fails() {
  if (fault.countdown < 0 || fault.countdown-- != 0) return false;
  fault.happened = true;
  errno = fault.error;
  return true;
}

}  // namespace hawser::checkpoint
