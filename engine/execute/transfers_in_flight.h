// TransfersInFlight: tracks by lane which transfers of a run have been started, and which of them later
// compute work already waits for.
#pragma once

#include <vector>

#include "engine/parallel/bucket_runtime.h"
#include "engine/parallel/offload.h"
#include "engine/plan/plan.h"

namespace hawser::train {

class TransfersInFlight {
 public:
  /// `runtime` is null for one rank, whose plans have no transfers between ranks. The other arguments must
  /// outlive this object.
  TransfersInFlight(parallel::BucketRuntime* runtime, const parallel::OutsideArena* outside,
                    const parallel::ShardLayout* layout, char* arena)
      : runtime_(runtime), outside_(*outside), layout_(*layout), arena_(arena) {}

  /// Call before a run from instruction `first` on. `continues`: the run before it was the gradient phase of
  /// this step, whose transfers that cross the border may be in flight; otherwise nothing is. The calls below
  /// allocate nothing.
  void begin(const plan::Plan& plan, size_t first, bool continues);
  comm::Work start(const plan::Plan& plan, size_t index);
  /// Makes later work of the compute lane wait for these transfers. Returns false if it already does.
  bool follow(const plan::LaneMarks& transfers);
  /// Blocks this thread until these transfers are done, for an instruction of the host's processor. The
  /// compute lane does not wait. Throws the error of one that failed.
  void await_on_host(const plan::LaneMarks& transfers);
  /// Call when the host's processor has executed an instruction.
  void ran_on_host(size_t index) {
    started_[plan::Lane::kHost] = awaited_at_border_[plan::Lane::kHost] = static_cast<int32_t>(index);
  }
  /// Waits for all transfers in `these`, either started() or awaited_at_border(). Throws the error of one
  /// that failed, also of one that is not awaited but has failed already.
  void finish(const plan::LaneMarks& these);
  /// Call after a failure, when all transfers have ended: forgets them.
  void forget() { done_ = started_; }

  /// Returns the newest transfer of each lane for which the compute lane waits.
  const plan::LaneMarks& done() const { return done_; }
  const plan::LaneMarks& started() const { return started_; }
  /// Returns the newest started transfer of each lane that does not cross the border (Plan::crosses).
  const plan::LaneMarks& awaited_at_border() const { return awaited_at_border_; }

 private:
  comm::Work move(const plan::Plan& plan, const plan::Instruction& n);
  void follow(plan::Lane lane, comm::Work work);
  void wait(plan::Lane lane, comm::Work work);

  parallel::BucketRuntime* runtime_;
  const parallel::OutsideArena& outside_;
  const parallel::ShardLayout& layout_;
  char* arena_;
  std::vector<comm::Work> works_;  // indexed by instruction
  plan::LaneMarks first_, done_, started_, awaited_at_border_;
  plan::LaneMarks host_done_;  // the newest transfers for which this thread has waited in await_on_host
};

}  // namespace hawser::train
