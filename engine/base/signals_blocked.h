// Hawser's threads never receive the host's signals, because they start with all signals blocked.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace hawser {

/// Blocks all signals of this thread, and of threads it creates, until destroyed.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace hawser
