// SignalsBlocked: blocks signals while a thread is created, so that Hawser's threads never receive the host
// program's signals.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace hawser {

/// Blocks all signals for this thread, and for threads that it creates, until destroyed.
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
