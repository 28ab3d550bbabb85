// Call progress: a callback that a long call invokes on the calling thread, to report how far it is. It
// serves calls that have no engine yet, whose progress nobody could read otherwise. Each thread has its own
// callback.
#pragma once

#include <cstdint>

namespace hawser {

struct CallProgress {
  const char* phase = "";  ///< what is counted; a literal
  int64_t done = 0, total = 0;
};

/// Returns true to end the running call. May throw, which ends the call too.
using CallProgressFn = bool (*)(void* user, const CallProgress& now);

/// Sets the callback of the calling thread; null: none.
void set_call_progress(CallProgressFn callback, void* user);

/// Calls the calling thread's callback at the begin and the end of the phase, and at most ten times a second
/// in between. Throws kCancelled if it ends the call.
void report_call_progress(const CallProgress& now);

}  // namespace hawser
