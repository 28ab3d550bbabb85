// TransfersInFlight: the transfers of a run that have been started, by lane, and those that the compute lane
// has already been ordered after.
#pragma once

#include <vector>

#include "engine/parallel/bucket_runtime.h"
#include "engine/parallel/offload_store.h"
#include "engine/plan/plan.h"

namespace hawser::train {

class TransfersInFlight {
 public:
  /// `runtime` is null for one rank, whose plans have no transfers between ranks; `store` if the plans move
  /// nothing out of the arena.
  TransfersInFlight(parallel::BucketRuntime* runtime, parallel::OffloadStore* store, char* arena)
      : runtime_(runtime), store_(store), arena_(arena) {}

  /// Call before a run from instruction `first` on, with nothing in flight. The calls below allocate nothing.
  void begin(const plan::Plan& plan, size_t first);
  comm::Work start(const plan::Plan& plan, size_t index);
  /// Orders later work of the compute lane after these transfers. Returns false if it already is.
  bool follow(const plan::LaneMarks& transfers);
  /// Waits for all started transfers. Throws the error of one that failed.
  void finish();
  /// After a failure: forgets the transfers, which have ended one way or the other.
  void forget() { done_ = started_; }

  /// The newest transfer of each lane that the compute lane is ordered after.
  const plan::LaneMarks& done() const { return done_; }
  const plan::LaneMarks& started() const { return started_; }

 private:
  comm::Work move(const plan::Plan& plan, const plan::Instruction& n);

  parallel::BucketRuntime* runtime_;
  parallel::OffloadStore* store_;
  char* arena_;
  std::vector<comm::Work> works_;  // indexed by instruction
  plan::LaneMarks first_, done_, started_;
};

}  // namespace hawser::train
