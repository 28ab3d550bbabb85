// TransfersInFlight: the transfers of a run that its compute lane has handed over, lane by lane, and up to
// which ones the compute lane comes after them.
#pragma once

#include <vector>

#include "engine/parallel/bucket_runtime.h"
#include "engine/plan/plan.h"

namespace hawser::train {

class TransfersInFlight {
 public:
  /// `runtime`: null for one rank, whose plans have no transfers.
  explicit TransfersInFlight(parallel::BucketRuntime* runtime) : runtime_(runtime) {}

  /// Before a run from instruction `first` on: nothing is in flight. What follows allocates nothing.
  void begin(const plan::Plan& plan, size_t first);
  comm::Work start(const plan::Plan& plan, size_t index);
  /// What the compute lane is given from now on comes after these. False: it does already.
  bool follow(const plan::LaneMarks& transfers);
  /// After all that were started, and returns when they are done. Throws why one failed.
  void finish();
  /// After a failure: they are over, one way or the other.
  void forget() { done_ = started_; }

  /// The newest of each lane that the compute lane comes after.
  const plan::LaneMarks& done() const { return done_; }
  const plan::LaneMarks& started() const { return started_; }

 private:
  parallel::BucketRuntime* runtime_;
  std::vector<comm::Work> works_;  // by instruction
  plan::LaneMarks first_, done_, started_;
};

}  // namespace hawser::train
