// InterruptScope: a handler of the signals that ask a run to stop. The run then stops at the next step
// boundary, with a checkpoint. A second Ctrl-C ends the program at once.
#pragma once

#include <csignal>

namespace hawser::cli {

/// While this object exists, SIGINT, SIGTERM and SIGHUP end the long call of this thread
/// (hws_thread_set_interrupt). After the first SIGINT or SIGTERM, that signal has its default effect again.
/// Closing a terminal may send several SIGHUPs (from the kernel and the shell): all after the first are
/// ignored, also later. If the caller ignores SIGHUP (nohup), it stays ignored. One instance at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// True if a signal has arrived since the newest instance was created.
  static bool interrupted();

 private:
  struct sigaction before_hangup_;
};

}  // namespace hawser::cli
