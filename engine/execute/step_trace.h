// StepTrace: a recorder of when each instruction of the last step ran on one rank, by lane. The executor
// reports what the compute lane does; the times of transfers come from the records of the rank's lanes. Calls
// of lanes that the plan does not use, such as those of a save, are recorded too. All memory is allocated at
// construction, and an executor without a trace pays nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/execute/kernel_profile.h"
#include "engine/parallel/offload.h"
#include "engine/plan/timeline.h"

namespace hawser::train {

class StepTrace {
 public:
  /// The arguments must outlive the trace. `comm` is null for one rank; `outside` may be null if nothing
  /// leaves the arena.
  StepTrace(const plan::Plan& plan, comm::RankComm* comm, const parallel::OutsideArena* outside = nullptr);

  /// From now on, also times every kernel call and sums the times over steps.
  void add_profile(device::Device& device);
  KernelProfile* profile() { return profile_.get(); }
  const KernelProfile* profile() const { return profile_.get(); }
  /// Sums over profiled steps. The first step warms up caches and touches memory for the first time, so the
  /// sums restart after it.
  struct Sums {
    int64_t steps = 0, transfers = 0, sent_bytes = 0;
    double seconds = 0;        ///< both phases, from first instruction to last
    double waited = 0;         ///< the part that the compute lane waited for transfers
    double communicating = 0;  ///< time of transfers, hidden or not
    // Exchanges within blocks, on the compute lane. With a single-lane transport they count as transfers.
    int64_t exchanges = 0, exchanged_bytes = 0;
    double exchanging = 0;
    double beside = 0;  ///< the part that overlapped with computation
  };
  const Sums& sums() const { return sums_; }

  bool is_of(const plan::Plan& plan) const { return &plan == &plan_; }

  // The executor calls the following functions, in the order of the plan.
  void begin_half(size_t first);
  void turn(size_t index);    ///< the compute lane reached the instruction
  void starts(size_t index);  ///< it has waited for what the instruction needs
  void issued(size_t index, comm::Work work);
  /// The instruction has ended. It waited for `waited` seconds for its overlapped exchanges.
  void ended(size_t index, double waited);
  /// Both instructions of the pair that begins with `index` have ended. The pair waited for `waited` seconds
  /// for its overlapped exchanges.
  void pair_ended(size_t index, double waited);
  void drains();              ///< the half of the step only waits for its transfers now
  void end_half(size_t end);  ///< the transfers are done

  /// Returns times in seconds of the steady clock. Throws kFailedPrecondition if no step was recorded
  /// completely.
  plan::Timeline timeline() const;

  /// A lane of the comm, and the calls in it that finished during the last step.
  struct LaneCalls {
    std::string name;
    bool planned = false;  ///< it carries transfers of the plan, which are in the timeline
    std::span<const comm::Record> calls;
  };
  std::vector<LaneCalls> lanes() const;

 private:
  /// The times of one instruction. `last` is its last call.
  struct Mark {
    double ready = 0, begin = 0, end = 0;
    double waited = 0;  ///< seconds that it, or its pair, waited for overlapped exchanges
    comm::Work last;
  };
  struct Half {
    size_t end = 0;  ///< end of the recorded instructions
    double drain_begin = 0, drain_end = 0;
  };
  void end(size_t index);
  void begin_sums();
  void add_half();
  void take_records();
  void count_calls(int64_t calls);
  void add_transfers(plan::Timeline* timeline) const;
  size_t find_lane(const char* name, size_t otherwise) const;
  void add_moves(plan::Timeline* timeline) const;

  /// Seconds of exchanges that the rank waited for, and of exchanges that overlapped with computation.
  struct Exchanged {
    double awaited = 0, beside = 0;
  };
  Exchanged exchanged(size_t i, std::vector<size_t>* nexts) const;
  /// The recorded calls of a lane.
  struct Calls {
    std::string name;
    bool planned = false;
    std::vector<comm::Record> records;
    size_t recorded = 0;
    size_t half = 0;  ///< first call of the half of the step that runs
    void take(comm::RankComm* comm, int32_t lane);
  };
  void add_exchanges(const Calls& lane);

  const plan::Plan& plan_;
  comm::RankComm* comm_;
  const parallel::OutsideArena* outside_;
  std::vector<Mark> marks_;
  std::vector<Half> halves_;  ///< finished halves of the last step
  std::vector<Calls> lanes_;  ///< by Work::lane
  size_t block_lane_ = 0;     ///< lane of exchanges within blocks; 0 if they have no lane of their own
  size_t expert_lane_ = 0;  ///< lane of exchanges with experts; equals block_lane_ unless the plan has pairs
  int64_t in_flight_ = 0;   ///< most calls since the records were last taken
  std::vector<size_t> nexts_;  ///< by lane: scratch of add_half
  std::unique_ptr<KernelProfile> profile_;
  Sums sums_;
  size_t half_begin_ = 0;  ///< first instruction of the half of the step that runs
  int64_t steps_begun_ = 0;
};

}  // namespace hawser::train
