// A fault that a test plants among system calls that it has replaced at link time (--wrap): the N-th one fails.
#pragma once

#include <errno.h>

namespace hawser::checkpoint {

struct Fault {
  int countdown = -1;  // calls until one fails; negative: none fails
  int error = 0;
  bool happened = false;
};

inline Fault fault;

/// Asked by each replaced call; true, with errno set: this is the one.
inline bool fails() {
  if (fault.countdown < 0 || fault.countdown-- != 0) return false;
  fault.happened = true;
  errno = fault.error;
  return true;
}

}  // namespace hawser::checkpoint
