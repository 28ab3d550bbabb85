// How long the two halves of a pair take (Instruction::paired): they take turns on the compute lane, each
// going on until it has begun exchanges that are carried beside and has nothing else to compute, or ends
// (base/turns.h).
#pragma once

#include <vector>
namespace hawser::plan {

/// An exchange of a half, and what it computes before.
struct HalfStep {
  double compute = 0, exchange = 0;  ///< seconds
  bool beside = false;               ///< carried while the other half computes
  bool in_lane = false;              ///< carried in the lane of those, one after the other
};

struct PairHalf {
  std::vector<HalfStep> steps;
  double rest = 0;  ///< computed after the last exchange
};

/// Seconds.
struct PairTimes {
  double all = 0;
  double exchanging = 0;  ///< of it nothing was computed, because of exchanges
  double beside = 0;      ///< exchanges were carried while the other half computed
};
PairTimes overlap_times(const PairHalf& first, const PairHalf& second);

}  // namespace hawser::plan
