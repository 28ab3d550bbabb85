// Overlap times: computes how long two overlapped instructions take (Instruction::overlaps_next). They take
// turns on the compute lane (base/fiber_pair.h): each continues until it has begun overlapped exchanges and
// has nothing else to compute, or until it ends.
#pragma once

#include <vector>
namespace hawser::plan {

/// One exchange of an instruction, and the computation before it.
struct HalfStep {
  double compute = 0, exchange = 0;  ///< seconds
  bool beside = false;               ///< in progress while the partner computes
  bool in_lane = false;              ///< waits for the previous exchange of this kind, of either partner
};

struct PairHalf {
  std::vector<HalfStep> steps;
  double rest = 0;  ///< computation after the last exchange, in seconds
};

/// All times in seconds.
struct PairTimes {
  double all = 0;
  double exchanging = 0;  ///< the part in which exchanges were awaited and nothing was computed
  double beside = 0;      ///< the part of the exchanges during which the partner computed
};
PairTimes overlap_times(const PairHalf& first, const PairHalf& second);

}  // namespace hawser::plan
