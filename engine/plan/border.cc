// The border between the two phases of a step: which transfers may still run when the gradient phase ends.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/plan/plan.h"

namespace hawser::plan {

LaneMarks Plan::over_before(size_t begin) const {
  LaneMarks over(static_cast<int32_t>(begin) - 1);
  for (size_t l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    over[lane] = std::min(over[lane], crosses_from[lane] - 1);
  }
  return over;
}

void assign_border(Plan* plan) {
  plan->crosses_from = LaneMarks(kNeverCrosses);
  for (size_t i = 0; i < plan->commit; ++i) {
    const Instruction& n = plan->instructions[i];
    int32_t& from = plan->crosses_from[n.lane];
    const bool for_update =
        n.op == Op::kFetch && plan->slot(n[Operand::kReceived]).last >= static_cast<int32_t>(plan->commit);
    if (for_update && is_own(n.lane)) {
      from = std::min(from, static_cast<int32_t>(i));
    } else if (n.is_transfer() && from != kNeverCrosses) {
      fail(
          Code::kInternal,
          "plan {}: instruction {} ({}) of the gradient phase is behind instruction {} in lane {}, which may "
          "still run when that phase ends",
          plan->name, i, op_name(n.op), from, lane_name(n.lane));
    }
  }
}

}  // namespace hawser::plan
