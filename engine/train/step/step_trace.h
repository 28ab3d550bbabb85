// StepTrace: when each instruction of the last step ran on one rank, on each of its lanes. The executor
// tells it what the compute lane does; what became of the transfers it takes from the rank's records. All
// memory is taken when it is made, and an executor without a trace pays nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/plan/timeline.h"
#include "engine/train/step/kernel_profile.h"

namespace hawser::train {

class StepTrace {
 public:
  /// `plan` and `comm` outlive the trace. `comm`: null for one rank.
  StepTrace(const plan::Plan& plan, comm::RankComm* comm);

  /// From now on every kernel call is timed too, and times are added up over steps.
  void add_profile(const kernels::KernelTable& kernels, Stream& stream);
  KernelProfile* profile() { return profile_.get(); }
  const KernelProfile* profile() const { return profile_.get(); }
  /// Sums over profiled steps. The first step warms caches up and touches memory for the first time, so sums
  /// begin anew after it.
  struct Sums {
    int64_t steps = 0, transfers = 0, sent_bytes = 0;
    double seconds = 0;        ///< both halves, first instruction to last
    double waited = 0;         ///< of these, what the compute lane waited for transfers
    double communicating = 0;  ///< beside or under them
  };
  const Sums& sums() const { return sums_; }

  bool is_of(const plan::Plan& plan) const { return &plan == &plan_; }

  // By the executor, in the order of the plan.
  void begin_half(size_t first);
  void turn(size_t index);    ///< the compute lane came to it
  void starts(size_t index);  ///< and has waited for what it needs
  void issued(size_t index, comm::Work work);
  void ended(size_t index);
  void drains();              ///< the half has nothing left but to wait for its transfers
  void end_half(size_t end);  ///< and has

  /// Seconds of the steady clock. Throws kFailedPrecondition if no step was recorded to its end.
  plan::Timeline timeline() const;

 private:
  /// One instruction; `last` is the ticket of its last call.
  struct Mark {
    double ready = 0, begin = 0, end = 0;
    uint64_t last = 0;
  };
  struct Half {
    size_t end = 0;  ///< instructions up to here are recorded
    double drain_begin = 0, drain_end = 0;
  };
  void begin_sums();
  void add_half();
  void take_records();
  void add_transfers(plan::Timeline* timeline) const;

  const plan::Plan& plan_;
  comm::RankComm* comm_;
  std::vector<Mark> marks_;
  std::vector<Half> halves_;  ///< ended ones of the last step
  std::vector<comm::Record> records_;
  size_t recorded_ = 0;
  int64_t in_flight_ = 0;  ///< calls since the records were last taken, at most
  std::unique_ptr<KernelProfile> profile_;
  Sums sums_;
  size_t half_begin_ = 0, half_records_ = 0;  ///< instruction and record that the running half began with
  int64_t steps_begun_ = 0;
};

}  // namespace hawser::train
