// SaveClock: decides when a run saves by time. The cost of a save is the time that training waits for it. The
// interval is at least a hundred times that cost, so saves by time take less than 1% of a run, however large
// the state and slow the disk. Time only decides when to save; no number of a run depends on it.
#pragma once

#include <algorithm>

namespace hawser::train {

class SaveClock {
 public:
  static constexpr double kLargestShare = 0.01;  ///< largest share of a run's time spent on these saves

  /// `every` is the least number of seconds between saves; 0 means no saves by time. All times are seconds of
  /// one steady clock.
  SaveClock(double every, double now) : every_(every), interval_(every), last_(now) {}

  bool due(double now) const { return every_ > 0 && now - last_ >= interval_; }
  /// Records that training waited from `begin` to `end` for a save, successful or not.
  void saved(double begin, double end) {
    last_ = end;
    interval_ = std::max(every_, (end - begin) / kLargestShare);
  }

 private:
  double every_, interval_, last_;
};

}  // namespace hawser::train
