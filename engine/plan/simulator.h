// Simulator: when each instruction of a plan would run, from a table of costs. It walks the plan that the
// executor runs, so there is no second model of the schedule that could drift.
//
// The model. Data-parallel ranks share one plan. If their costs are equal too, they run in step, and one of
// them represents all; ranks of different speed are simulated together. A rank has a compute lane and
// communication lanes (instruction.h), each in order.
//   * The compute lane walks over all instructions. Before each, it waits until the transfers of `waits_for`
//     are done. Then it runs the instruction, or queues it at no cost if it is a transfer.
//   * A communication lane starts a transfer when all ranks have queued it and the one before it is done. It
//     takes latency + sent_bytes / bytes_per_second, with the numbers of the slowest rank.
//   * An instruction of the compute lane that sends (in COUNT_TOKENS and the last GRAD_NORM, ranks agree)
//     queues its transfer on the lane of data parallelism, waits until that is done, and then runs.
//   * At the end of each half of the plan (Plan::commit), the compute lane waits until every transfer is done.
//     The second half follows at once.
// Not modelled: lanes that slow each other down by sharing cores, memory or wires, and groups smaller than the
// world (a transfer waits for all ranks, also for those outside its group).
#pragma once

#include <vector>

#include "engine/plan/timeline.h"

namespace hawser::plan {

/// All costs are >= 0.
struct CostTable {
  /// Seconds of each instruction of the compute lane, where they were measured: as many as the plan has
  /// instructions (those of transfers are not looked at). Empty: from the two rates below.
  std::vector<double> seconds;
  double seconds_per_flop = 0;
  double seconds_per_instruction = 0;  ///< of each on the compute lane, on top of its FLOPs
  double bytes_per_second = 0;         ///< that one rank sends; above 0 if the plan sends anything
  double latency = 0;                  ///< seconds of each transfer, on top of its bytes
};

/// Starts at second 0. Throws kInternal for a plan that would stop for ever (it waits for itself, or for a
/// later instruction) or that waits for what is no transfer of the lane that it names, kInvalidArgument for costs that make no sense.
Timeline simulate(const Plan& plan, const CostTable& costs);

/// The same for ranks of different speed, one table and one timeline each.
std::vector<Timeline> simulate(const Plan& plan, const std::vector<CostTable>& ranks);

}  // namespace hawser::plan
