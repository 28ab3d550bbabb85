// Traces: a recorder of when each instruction of a step, and optionally each kernel call, ran on every rank
// of this process.
//
// Threading: set is a mutating call; reports may run in parallel. Errors: kFailedPrecondition for a report on
// something that was not recorded.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/execute/step_trace.h"
#include "engine/plan/timeline.h"
#include "engine/ranks/ranks.h"
#include "engine/report/metrics.h"
#include "engine/report/trace_report.h"
#include "engine/state/progress.h"

namespace hawser::train {

class Traces {
 public:
  Traces(const Ranks& ranks, const Progress& progress, const Metrics& metrics)
      : ranks_(ranks), progress_(progress), metrics_(metrics) {}

  /// Starts or stops recording, from the next step on. Stopping drops what was recorded. `kernels` also
  /// records every kernel call. Throws kFailedPrecondition for inference and while a step is pending.
  void set(bool on, bool kernels = false);
  /// Records the next step, which has `rows` rows, if recording is on.
  void select(int64_t rows);
  /// The last step of every local rank (trace_report.h).
  std::string report(TraceForm form) const;
  /// Time by kernel and shape on every local rank, summed over all steps after the first since set(true,
  /// true). With a batch ramp: over the steps of the size that ran last.
  std::string profile_report(bool json) const;  // profile_report.cc
  /// Timeline of one rank, by its index in this process.
  plan::Timeline timeline(int32_t index) const;

 private:
  OrderedJson pipeline_json(const std::vector<plan::Timeline>& lines) const;

  const Ranks& ranks_;
  const Progress& progress_;
  const Metrics& metrics_;
  /// The trace of a rank, by its index in this process, for the steps of the size that ran last.
  const StepTrace& trace(int32_t index) const;

  // By micro-batches of a step and rank of this process; empty while nothing is recorded.
  std::map<int64_t, std::vector<StepTrace>> traces_;
  int64_t rows_ = 0;  // of the last step
};

}  // namespace hawser::train
