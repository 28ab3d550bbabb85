#include "engine/plan/segments.h"

namespace hawser::plan {
namespace {

bool is_the_hosts(const Instruction& n) {
  const bool agrees_on_norm = n.op == Op::kGradNorm && n.block < 0;
  return n.op == Op::kLoadMicroBatch || n.op == Op::kCountTokens || n.op == Op::kLogits || agrees_on_norm;
}

}  // namespace

std::vector<Segment> segments(const Plan& plan, size_t begin, size_t end) {
  std::vector<Segment> found;
  int32_t done = static_cast<int32_t>(begin) - 1;  // the newest transfer that was waited for
  bool open = false;
  for (size_t i = begin; i < end; ++i) {
    const Instruction& n = plan.instructions[i];
    const bool waits = n.waits_for > done;
    if (waits) done = n.waits_for;
    if (n.stream == StreamId::kCommunication || is_the_hosts(n)) {
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

}  // namespace hawser::plan
