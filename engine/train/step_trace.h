// StepTrace: when each instruction of the last step ran on one rank, on both of its streams. The executor
// tells it what the compute stream does; what became of the transfers it takes from the rank's records. All
// memory is taken when it is made, and an executor without a trace pays nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/plan/timeline.h"

namespace hawser::train {

class StepTrace {
 public:
  /// `plan` and `comm` outlive the trace. `comm`: null for one rank.
  StepTrace(const plan::Plan& plan, comm::RankComm* comm);

  bool is_of(const plan::Plan& plan) const { return &plan == &plan_; }

  // By the executor, in the order of the plan.
  void begin_half(size_t first);
  void turn(size_t index);    ///< the compute stream came to it
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
  void take_records();
  void add_transfers(plan::Timeline* timeline) const;

  const plan::Plan& plan_;
  comm::RankComm* comm_;
  std::vector<Mark> marks_;
  std::vector<Half> halves_;  ///< ended ones of the last step
  std::vector<comm::Record> records_;
  size_t recorded_ = 0;
  int64_t in_flight_ = 0;  ///< calls since the records were last taken, at most
};

}  // namespace hawser::train
