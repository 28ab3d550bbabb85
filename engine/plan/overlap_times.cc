#include "engine/plan/overlap_times.h"

#include <algorithm>

namespace hawser::plan {
namespace {

class TakingTurns {
 public:
  PairTimes run(const PairHalf& first, const PairHalf& second) {
    Half halves[] = {{first}, {second}};
    for (size_t h = 0; !halves[0].ended || !halves[1].ended; h = halves[1 - h].ended ? h : 1 - h)
      go_on(&halves[h]);
    return {now_, exchanging_, std::max(0.0, carried_ - waited_)};
  }

 private:
  struct Half {
    const PairHalf& of;
    size_t at = 0;
    double done = 0;  // when the exchanges that it has begun are done
    bool ended = false;
  };

  void go_on(Half* half) {
    waited_ += std::max(0.0, half->done - now_);
    wait_until(half->done);
    const std::vector<HalfStep>& steps = half->of.steps;
    while (half->at < steps.size()) {
      const HalfStep& step = steps[half->at++];
      now_ += step.compute;
      const double end = (step.in_lane ? std::max(now_, lane_free_) : now_) + step.exchange;
      if (step.in_lane) lane_free_ = end;
      if (!step.beside) {
        wait_until(end);
        continue;
      }
      carried_ += step.exchange;
      half->done = end;
      const bool more = half->at < steps.size() && steps[half->at].beside && steps[half->at].compute == 0;
      if (!more) return;
    }
    now_ += half->of.rest;
    half->ended = true;
  }
  void wait_until(double time) {
    if (time <= now_) return;
    exchanging_ += time - now_;
    now_ = time;
  }

  double now_ = 0, lane_free_ = 0, exchanging_ = 0, carried_ = 0, waited_ = 0;
};

}  // namespace

PairTimes overlap_times(const PairHalf& first, const PairHalf& second) {
  return TakingTurns().run(first, second);
}

}  // namespace hawser::plan
