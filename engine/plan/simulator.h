// Simulator: computes when each instruction of a plan would run, from a table of costs. It replays the plans
// that the executor runs (pipeline_replay.h), all stages of a pipeline together, so that simulator and
// executor cannot differ in their schedules.
//
// The model. Data-parallel ranks share one plan. With equal costs they run in step, and one of them
// represents all. Ranks of different speed are simulated together. A rank has a compute lane and
// communication lanes (instruction.h), each in order.
//   * The compute lane walks over all instructions. Before each, it waits until the transfers of `waits_for`
//   are done. Then it runs the instruction, or, if it is a transfer, queues it.
//   * A communication lane starts a transfer once all ranks have queued it and the one before it is done. It
//   takes latency + sent_bytes / bytes_per_second, with the numbers of the slowest rank. A message between
//   stages is one transfer of two ranks. OFFLOAD and FETCH involve one rank only, and copy their bytes at a
//   separate rate. An instruction of the host's processor likewise takes the bytes of its slots at a rate.
//   * Exchanges within a block (Instruction::exchanges) take latency and bytes on the compute lane itself, in
//   parallel with the communication lanes. All ranks begin the instruction together and end it together.
//   * If the rank itself computes during an exchange (ExchangeNote::hiding_flops), only the rest of the
//   exchange takes time on the compute lane. Exchanges of an instruction run one after the other. The
//   instruction's seconds of computation are spread over them by FLOPs.
//   * Two overlapped instructions (Instruction::overlaps_next) take turns, as base/fiber_pair.h does:
//   overlapped exchanges run one after the other, while the instruction that did not begin them computes.
//   * Any other instruction of the compute lane that sends (COUNT_TOKENS and the last GRAD_NORM sum over all
//   ranks) queues its transfer on the data-parallel lane, waits until it is done, and then runs.
//   * At the end of each phase of the plan (Plan::commit separates the two), the compute lane waits until
//   every transfer is done that does not cross the border (Plan::crosses). The update phase follows at once.
// Not modelled: lanes that slow each other down by sharing cores, memory or wires, and process groups smaller
// than a stage (a transfer waits for all ranks, including those outside its group).
#pragma once

#include <string_view>
#include <vector>

#include "engine/plan/timeline.h"

namespace hawser::plan {

/// The time of exchanges inside blocks with this group and operation (ExchangeNote), by their bytes.
struct ExchangeRate {
  const char *group = "", *operation = "";
  double latency = 0, seconds_per_byte = 0;
  bool is_of(const ExchangeNote& note) const {
    return is_same(group, note.group) && is_same(operation, note.operation);
  }

 private:
  /// Equal names are mostly the same literal.
  static bool is_same(const char* a, const char* b) { return a == b || std::string_view(a) == b; }
};

/// The costs of one rank, all >= 0.
struct CostTable {
  /// Measured seconds of the compute lane for each instruction of the plan, without exchanges; for a
  /// transfer, until it is queued. If empty, the two rates below are used, and queuing a transfer takes no
  /// time.
  std::vector<double> seconds;
  /// Measured seconds of each transfer, and of the collective with which an instruction of the compute lane
  /// starts. If empty, `latency` and `bytes_per_second` are used.
  std::vector<double> transfer_seconds;
  double seconds_per_flop = 0;
  double seconds_per_instruction = 0;    ///< of each instruction, in addition to its FLOPs
  double bytes_per_second = 0;           ///< sent by one rank; must be above 0 if the plan sends anything
  double latency = 0;                    ///< seconds of each transfer, in addition to its bytes
  double exchange_bytes_per_second = 0;  ///< of exchanges within blocks; 0: as for transfers
  double exchange_latency = 0;           ///< seconds of each such exchange, in addition to its bytes
  /// Rates of single kinds of exchanges. All others have the two rates above.
  std::vector<ExchangeRate> exchange_rates;
  double offload_bytes_per_second =
      0;  ///< copied out of the arena, or back; must be above 0 if the plan has such copies
  /// State that the host's processor works on; must be above 0 if the plan has such instructions.
  double host_bytes_per_second = 0;

  double exchange_seconds(const ExchangeNote& note) const;
  /// Returns how long the rank waits for each exchange of an instruction that computes for `seconds`.
  std::vector<double> exposed_seconds(const Instruction& n, double seconds) const;
  /// Their sum.
  double all_exposed_seconds(const Instruction& n, double seconds) const;

 private:
  template <class Visit>
  void each_exposed(const Instruction& n, double seconds, const Visit& visit) const;
};

/// Simulates one rank from second 0. Throws kInternal for a plan that would deadlock (an instruction waits
/// for itself or a later one) or that waits for something other than a transfer of the named lane, and
/// kInvalidArgument for invalid costs.
Timeline simulate(const Plan& plan, const CostTable& costs);

/// Simulates ranks of different speed, with one table and one timeline for each.
std::vector<Timeline> simulate(const Plan& plan, const std::vector<CostTable>& ranks);

/// Simulates the stages of a pipeline, with equally many ranks each: tables and timelines by stage and rank.
std::vector<std::vector<Timeline>> simulate(const std::vector<const Plan*>& stages,
                                            const std::vector<std::vector<CostTable>>& ranks);

}  // namespace hawser::plan
