// Simulator: when each instruction of a plan would run, from a table of costs. It walks the very plan that
// the executor runs, so there is no second model of the schedule that could drift.
//
// The model. Data-parallel ranks have one plan. Where they have the same costs, too, they go in step, and one
// of them stands for all, however many there are; ranks of different speed are simulated together. A rank has
// two streams, each in order.
//   * The compute stream walks over all instructions. Before each it stands still until transfer `waits_for`
//   is
//     done. Then it runs the instruction, or, of a transfer, hands it over in no time.
//   * The communication stream begins a transfer when all ranks have handed it over and the one before it is
//   done,
//     and takes latency + sent_bytes / bytes_per_second for it, as the slowest rank has them.
//   * An instruction of the compute stream that sends (COUNT_TOKENS and the last GRAD_NORM agree with the
//   other
//     ranks) hands over its transfer, stands still until that is done, and then runs.
//   * At the end of either half of the plan (Plan::commit) the compute stream stands still until every
//   transfer is
//     done. Halves follow each other at once.
// Not in the model: streams that slow each other down by sharing cores or memory, and that a transfer
// concerns only the members of its group (of ranks of different speed, all are waited for).
#pragma once

#include <vector>

#include "engine/plan/timeline.h"

namespace hawser::plan {

/// All costs are >= 0.
struct CostTable {
  /// Seconds of each instruction of the compute stream, where they were measured: as many as the plan has
  /// instructions (those of transfers are not looked at). Empty: from the two rates below.
  std::vector<double> seconds;
  double seconds_per_flop = 0;
  double seconds_per_instruction = 0;  ///< of each on the compute stream, on top of its FLOPs
  double bytes_per_second = 0;         ///< that one rank sends; above 0 if the plan sends anything
  double latency = 0;                  ///< seconds of each transfer, on top of its bytes
};

/// Starts at second 0. Throws kInternal for a plan that cannot run (it waits for itself, for a later
/// instruction, or for one that is no transfer), kInvalidArgument for costs that make no sense.
Timeline simulate(const Plan& plan, const CostTable& costs);

/// The same for ranks of different speed, one table and one timeline each.
std::vector<Timeline> simulate(const Plan& plan, const std::vector<CostTable>& ranks);

}  // namespace hawser::plan
