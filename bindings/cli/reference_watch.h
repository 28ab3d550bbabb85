// ReferenceWatch: shows how far the pass over the reference of /objective is while an engine is made, and
// lets Ctrl-C end it.
#pragma once

#include <optional>

#include "bindings/cli/client.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/report/progress_bar.h"

namespace hawser::cli {

/// Watches the calls that make an engine on this thread. Signals are handled only from the begin of the pass
/// on: earlier, for instance while other ranks connect, they end the process at once, as usual. One instance
/// at a time, without an InterruptScope.
class ReferenceWatch {
 public:
  /// `shows`: print the progress.
  explicit ReferenceWatch(bool shows);
  ~ReferenceWatch();
  ReferenceWatch(const ReferenceWatch&) = delete;
  ReferenceWatch& operator=(const ReferenceWatch&) = delete;

  /// Returns make(). If a signal ended the pass, throws Failure (HWS_CANCELLED), which says so.
  template <typename Make>
  Engine run(const Make& make) {
    try {
      Engine engine = make();
      bar_.finish();
      return engine;
    } catch (const Failure& failure) {
      bar_.finish();
      if (failure.status() == HWS_CANCELLED) rethrow_interrupted();
      throw;
    }
  }

 private:
  static int32_t on_progress(void* user, const char* json, size_t size);
  void show(int64_t done, int64_t total);
  void rethrow_interrupted() const;

  const bool shows_;
  ProgressBar bar_;
  double next_line_ = 0;  // seconds after which a line is due, if stdout is no terminal
  int64_t done_ = 0, total_ = 0;
  std::optional<InterruptScope> interrupt_;
  CallbackError error_;
};

}  // namespace hawser::cli
