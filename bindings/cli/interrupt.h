// Signals that ask a run to end: it stops at the next step boundary, with a checkpoint. The second Ctrl-C
// ends the program at once.
#pragma once

#include <csignal>

#include "capi/include/hawser.h"

namespace hawser::cli {

/// While it lives, SIGINT, SIGTERM and SIGHUP cancel `engine` and nothing else. After the first SIGINT or
/// SIGTERM that one has its default effect again. SIGHUP may come several times where a terminal is closed
/// (from the kernel, from the shell): once one came, all others are ignored, also afterwards; where the
/// caller ignores it (nohup), it stays so. One at a time per process. The engine must outlive it.
class InterruptScope {
 public:
  explicit InterruptScope(const hws_engine* engine);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// True once a signal came.
  static bool interrupted();

 private:
  struct sigaction before_hangup_;
};

}  // namespace hawser::cli
