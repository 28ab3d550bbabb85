// Trace report: writes a step, measured (traces.h) or predicted (foretold_report.h), for people and for
// trace viewers. JSON has Google's "Trace Event Format", which Perfetto and chrome://tracing read:
// complete events ("X") in microseconds, one process per rank. Each lane of the plan has a thread, and so has
// each lane of the comm that the plan does not use, such as the lane of saves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/execute/step_trace.h"
#include "engine/plan/timeline.h"

namespace hawser::train {

enum class TraceForm { kText, kJson, kSvg };

/// The step of one rank.
struct TracedRank {
  int32_t number = 0;  ///< in the world
  std::string name;    ///< "rank 3"
  const plan::Plan* plan = nullptr;
  plan::Timeline line;
  std::vector<StepTrace::LaneCalls> lanes = {};  ///< only for JSON
  const KernelProfile* kernels = nullptr;        ///< only for JSON; may be null
};

/// Returns a step in this form. `title`: the first line of the text and of the picture. `facts`: the keys of
/// "otherData" before "ranks". `last_line`: a line of the text between the table and its explanation, or "".
std::string trace_report(const std::vector<TracedRank>& ranks, TraceForm form, const std::string& title,
                         OrderedJson facts, const std::string& last_line = "");

}  // namespace hawser::train
