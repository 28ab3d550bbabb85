// SaveClock: when a run saves by time. The price of a save is the time that training waits for it; it is
// never more than a hundredth of the time to the next, so saving by time costs less than 1 % of a run however
// large the state and slow the disk, and nothing has to be known of either beforehand. Time decides when is
// saved and nothing else: no number of a run depends on it.
#pragma once

#include <algorithm>

namespace hawser::train {

class SaveClock {
 public:
  static constexpr double kLargestShare = 0.01;  ///< of a run's time that goes into saves by time

  /// every: seconds between saves at least; 0: none by time. Times are of one steady clock, in seconds.
  SaveClock(double every, double now) : every_(every), interval_(every), last_(now) {}

  bool due(double now) const { return every_ > 0 && now - last_ >= interval_; }
  /// Training waited from `begin` to `end` for a save, or tried in vain.
  void saved(double begin, double end) {
    last_ = end;
    interval_ = std::max(every_, (end - begin) / kLargestShare);
  }

 private:
  double every_, interval_, last_;
};

}  // namespace hawser::train
