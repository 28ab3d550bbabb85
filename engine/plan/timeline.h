// Timeline: when each instruction of a plan ran on one rank, simulated (simulator.h) or measured
// (execute/step_trace.h). Both use the same summary, so they can be compared.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Times of one instruction, in seconds of any clock. The compute lane walks over all instructions in order:
/// it runs its own and queues transfers on their lanes.
struct Times {
  double ready = 0;  ///< the compute lane reached the instruction
  /// The time in which the instruction ran on its lane. On the compute lane, the time between `ready` and
  /// `begin` was spent waiting.
  double begin = 0, end = 0;
  /// The time in which its transfer ran. On a communication lane this equals begin and end. An instruction of
  /// the compute lane that starts with a collective (starts_with_collective) sends on the data-parallel lane,
  /// and begins when the collective is done.
  double sent_begin = 0, sent_end = 0;
  /// The part of [begin, end], on the compute lane, in which exchanges within the block were awaited
  /// (Instruction::exchanges). Of two overlapped instructions, the first has the times of both and the second
  /// has length 0.
  double exchanging = 0;
  /// How long its exchanges ran while it computed or, if two instructions overlap, while the partner did.
  double beside = 0;
};

/// An interval in which the compute lane waited.
struct Wait {
  /// The instruction that waited. plan.commit or the number of instructions stands for the end of a phase,
  /// where every transfer must be done that does not cross the border (Plan::crosses).
  size_t instruction = 0;
  double begin = 0, end = 0;
};

struct Timeline {
  std::vector<Times> times;  ///< indexed by instruction; shorter than the plan if a step was discarded
  std::vector<Wait> waits;   ///< in order; waits of length 0 are left out
};

/// All values in seconds, except the shares.
struct Overlap {
  double makespan = 0;            ///< from the first instruction to the end of the last, or of the last wait
  double compute_busy = 0;        ///< the compute lane ran an instruction
  double communication_busy = 0;  ///< a transfer ran
  double exposed = 0;             ///< the compute lane waited for transfers
  double hidden = 0;              ///< a transfer ran while the compute lane ran an instruction
  double exchanging = 0;          ///< the part of compute_busy spent in exchanges within blocks
  double beside = 0;              ///< exchanges within blocks ran while the rank computed
  /// The part of `hidden` in which the compute lane ran BACKWARD or LOSS (which includes the head's
  /// backward).
  double behind_backward = 0;

  /// Returns the hidden share of communication; 1 if there is none.
  double hidden_share() const { return communication_busy > 0 ? hidden / communication_busy : 1; }
  double behind_backward_share() const {
    return communication_busy > 0 ? behind_backward / communication_busy : 1;
  }
};

Overlap overlap_of(const Plan& plan, const Timeline& timeline);

/// Summary of the step over all ranks of a pipeline.
struct PipelineSummary {
  double makespan = 0;  ///< seconds from the first instruction of any rank to the end of the last
  double idle = 0;      ///< share of the makespan, over all ranks, in which the compute lane ran nothing
};

/// Takes one plan and one timeline for each rank; all timelines use the same clock.
PipelineSummary summarise_pipeline(const std::vector<const Plan*>& plans,
                                   const std::vector<Timeline>& timelines);

/// True if an instruction of the compute lane exchanges data with other ranks before it runs.
inline bool starts_with_collective(const Instruction& n) {
  return !n.is_transfer() && n.sent_bytes > 0 && n.exchanges.empty();
}
/// Returns the lane of the instruction's transfer.
inline Lane sending_lane(const Instruction& n) { return n.is_transfer() ? n.lane : Lane::kDataParallel; }

}  // namespace hawser::plan
