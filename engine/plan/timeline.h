// Timeline: when each instruction of a plan ran on one rank, foretold (simulator.h) or measured
// (train/step_trace.h). One summary serves both, so that the two are compared in the same words.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// Seconds, of any clock. The compute lane walks over all instructions in order: it runs its own and gives
/// transfers to their lanes.
struct Times {
  double ready = 0;  ///< the compute lane came to it
  /// It ran on its lane. Between `ready` and `begin` of an instruction of the compute lane lies what it
  /// waited for.
  double begin = 0, end = 0;
  /// Its transfer; of one on a communication lane the same as begin and end. An instruction of the compute
  /// lane that sends (Instruction::sent_bytes) meets the other ranks first: its transfer takes its turn on the
  /// lane of data parallelism, and it begins when that is done.
  double sent_begin = 0, sent_end = 0;
};

/// The compute lane stood still.
struct Wait {
  size_t instruction = 0;  ///< that waited; plan.commit or the number of instructions: the end of that half,
                           ///< where every transfer must be done
  double begin = 0, end = 0;
};

struct Timeline {
  std::vector<Times> times;  ///< by instruction; shorter than the plan where a step was discarded
  std::vector<Wait> waits;   ///< in order; empty ones are left out
};

/// Seconds, except the shares.
struct Overlap {
  double makespan = 0;            ///< from the first instruction to the end of the last, or of the last wait
  double compute_busy = 0;        ///< the compute lane ran something
  double communication_busy = 0;  ///< a transfer ran
  double exposed = 0;             ///< the compute lane stood still for transfers
  double hidden = 0;              ///< a transfer ran while the compute lane ran something
  double behind_backward = 0;     ///< of that: while it ran BACKWARD or LOSS (which holds the head's)

  /// Of the communication; 1 where there is none.
  double hidden_share() const { return communication_busy > 0 ? hidden / communication_busy : 1; }
  double behind_backward_share() const {
    return communication_busy > 0 ? behind_backward / communication_busy : 1;
  }
};

Overlap overlap_of(const Plan& plan, const Timeline& timeline);

/// True for an instruction of the compute lane that exchanges something with other ranks before it runs.
inline bool meets_others(const Instruction& n) { return !n.is_transfer() && n.sent_bytes > 0; }
/// The lane of its transfer.
inline Lane sending_lane(const Instruction& n) { return n.is_transfer() ? n.lane : Lane::kDataParallel; }

}  // namespace hawser::plan
