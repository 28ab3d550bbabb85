#include "engine/plan/segments.h"

namespace hawser::plan {

std::vector<Segment> segments(const Plan& plan, size_t begin, size_t end) {
  std::vector<Segment> found;
  LaneMarks done = plan.over_before(begin);  // the last transfers that the compute lane has waited for
  bool open = false;
  for (size_t i = begin; i < end; ++i) {
    const Instruction& n = plan.instructions[i];
    const bool waits = !n.waits_for.covered_by(done);
    if (!n.on_host()) done.raise_to(n.waits_for);
    if (n.is_transfer() || needs_host(n)) {
      open = false;
      continue;
    }
    const bool goes_on = open && !waits && n.micro_batch == plan.instructions[i - 1].micro_batch;
    if (!goes_on) found.push_back({i, i});
    found.back().end = i + 1;
    open = true;
  }
  return found;
}

const char* reason(NoGraphs why) {
  switch (why) {
    case NoGraphs::kNone:
      break;
    case NoGraphs::kOff:
      return "the device cannot capture them, or cuda.graphs is false";
    case NoGraphs::kHostExchanges:
      return "exchanges inside blocks go through the host, which takes no part in a graph";
    case NoGraphs::kPositions:
      return "each call of generation has other positions";
  }
  return "";
}

void assign_segments(Plan* plan) {
  plan->segments = segments(*plan, 0, plan->commit);
  for (const Segment& s : segments(*plan, plan->commit, plan->instructions.size()))
    plan->segments.push_back(s);
}

}  // namespace hawser::plan
