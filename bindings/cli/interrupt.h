// Ctrl-C: asks the engine to stop at the next step boundary. The second one ends the program at once.
#pragma once

#include "capi/include/hawser.h"

namespace hawser::cli {

/// While it lives, SIGINT and SIGTERM cancel `engine` and nothing else; after the first signal both have
/// their default effect again. One at a time per process. The engine must outlive it.
class InterruptScope {
 public:
  explicit InterruptScope(const hws_engine* engine);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// True once a signal came.
  static bool interrupted();
};

}  // namespace hawser::cli
