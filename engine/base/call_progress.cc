#include "engine/base/call_progress.h"

#include "engine/base/error.h"
#include "engine/base/steady_clock.h"

namespace hawser {
namespace {

constexpr double kSecondsBetweenReports = 0.1;

struct ProgressListener {
  CallProgressFn callback = nullptr;
  void* user = nullptr;
  double next = 0;  // seconds of the steady clock
};

thread_local constinit ProgressListener t_progress;

}  // namespace

void set_call_progress(CallProgressFn callback, void* user) { t_progress = {callback, user, 0}; }

void report_call_progress(const CallProgress& now) {
  if (t_progress.callback == nullptr) return;
  const double seconds = steady_seconds();
  if (now.done > 0 && now.done < now.total && seconds < t_progress.next) return;
  t_progress.next = seconds + kSecondsBetweenReports;
  if (t_progress.callback(t_progress.user, now))
    fail(Code::kCancelled, "the host's progress callback ended the call at {} of {} {}", now.done, now.total,
         now.phase);
}

}  // namespace hawser
