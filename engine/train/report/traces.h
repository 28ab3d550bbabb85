// Traces: when each instruction of a step ran on every rank of this process, and every kernel call in them.
//
// Threading: set is a mutating call; reports may run beside each other.
// Errors: kFailedPrecondition for a report of what was not recorded.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/timeline.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"
#include "engine/train/report/metrics.h"
#include "engine/train/step/step_trace.h"

namespace hawser::train {

class Traces {
 public:
  Traces(const Ranks& ranks, const Progress& progress, const Metrics& metrics)
      : ranks_(ranks), progress_(progress), metrics_(metrics) {}

  /// Records when each instruction of a step runs, from the next step on; off: no more, and what was recorded
  /// is dropped. kernels: every kernel call in them too. Throws kFailedPrecondition for inference and while a
  /// step is pending.
  void set(bool on, bool kernels = false);
  /// The last step of every rank here, as trace events (json: what Perfetto and chrome://tracing read) or in
  /// words.
  std::string report(bool json) const;
  /// Where the time of all steps but the first went since set(true, true), by kernel and shape, for every
  /// rank here.
  std::string profile_report(bool json) const;  // profile_report.cc
  /// Of one rank, by its index here.
  plan::Timeline timeline(int32_t index) const;

 private:
  const Ranks& ranks_;
  const Progress& progress_;
  const Metrics& metrics_;
  std::vector<StepTrace> traces_;  // by rank of this process; empty: nothing is recorded
};

}  // namespace hawser::train
