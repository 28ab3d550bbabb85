// PipelineReplay: replays the plans of all stages of a pipeline together, by the rules of the executor and of
// lanes:
//   * The compute lane of a stage takes its instructions in order, each after the transfers in its waits_for
//   are done. It queues a transfer on the transfer's lane and continues.
//   * A transfer between ranks of one stage, whose plans are the same, is done when its turn in its lane
//   comes.
//   * A message is done when its turn has come at both ends.
//   * A collective of the world needs all stages: none passes it before all have reached it.
//   * Between the gradient phase and the update phase of a step, only transfers that cross the border
//   (Plan::crosses) are in flight; at the end none is.
// deadlock.h reports whether the plans complete, simulator.h when. The clock is a set of callbacks. Each
// event is reported after every event that it depends on.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// The progress of one stage.
struct StageState {
  StageState(const Plan& of, size_t until) : plan(&of), end(until) {}

  const Plan* plan;
  size_t end;            ///< instructions that are replayed
  size_t at = 0;         ///< the next instruction of the compute lane
  bool drained = false;  ///< the gradient phase is over
  LaneMarks done;
  std::array<std::deque<int32_t>, kLanes> queued;

  bool ends() const { return at == end; }
  const Instruction& next() const { return plan->instructions[at]; }
  bool idle() const;
  /// True if the next instruction is a collective of the whole world.
  bool is_world_collective() const {
    return next().op == Op::kCountTokens || (next().op == Op::kGradNorm && next().block < 0);
  }
  /// Returns the lane that the next instruction waits for; kCompute if none.
  Lane waits_for() const;
};

/// A lane of a stage.
struct LaneEnd {
  size_t stage;
  Lane lane;
};
/// Returns where a message of this stage's lane goes to or comes from, in a pipeline of that many stages.
LaneEnd other_end(size_t stage, Lane lane, size_t stages);

/// Returns a text that lists what each stage waits for.
std::string where(const std::vector<StageState>& stages);

/// Replays plans. Clock has these callbacks, which identify an instruction by stage and index:
///   void runs(size_t stage, size_t i);        the compute lane runs it
///   void gives(size_t stage, size_t i);       the compute lane queues it on its lane
///   void sums(size_t stage, size_t i);        a transfer between the ranks of the stage is done
///   void passes(size_t stage, size_t i, size_t other, size_t j);
///                                             a message, i at one end and j at the other, is done
///   void runs_together(const std::vector<StageState>& stages);
///                                             all stages run their next instruction together
///   void drains(size_t stage, size_t i);      all transfers before i that do not cross the border are done,
///                                             and the compute lane has waited for them
template <typename Clock>
class PipelineReplay {
 public:
  PipelineReplay(const std::vector<const Plan*>& plans, Clock* clock) : clock_(*clock) {
    for (const Plan* plan : plans) stages_.emplace_back(*plan, plan->instructions.size());
  }
  /// Replays the first `ends` instructions of each stage.
  PipelineReplay(const std::vector<const Plan*>& plans, const std::vector<size_t>& ends, Clock* clock)
      : clock_(*clock) {
    for (size_t s = 0; s < plans.size(); ++s) stages_.emplace_back(*plans[s], ends[s]);
  }

  /// Returns "" if the plans complete; otherwise what each stage waits for.
  std::string run() {
    advance();
    for (const StageState& stage : stages_)
      if (!stage.ends() || !stage.idle()) return where(stages_);
    for (size_t s = 0; s < stages_.size(); ++s) clock_.drains(s, stages_[s].at);
    return "";
  }
  /// True if all stages stop before their ends, so that later instructions cannot make them continue.
  bool all_stop() {
    advance();
    return std::none_of(stages_.begin(), stages_.end(), [](const StageState& s) { return s.ends(); });
  }

 private:
  /// Replays as much as can run.
  void advance() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t s = 0; s < stages_.size(); ++s) {
        moves |= compute(s);
        moves |= transfer(s);
      }
      moves |= meet();
    }
  }
  bool compute(size_t s) {
    StageState& stage = stages_[s];
    const size_t before = stage.at;
    while (!stage.ends() && stage.waits_for() == Lane::kCompute && !stage.is_world_collective()) {
      drain(s);
      const Instruction& n = stage.next();
      if (n.is_transfer()) {
        clock_.gives(s, stage.at);
        stage.queued[static_cast<size_t>(n.lane)].push_back(static_cast<int32_t>(stage.at));
      } else {
        clock_.runs(s, stage.at);
      }
      ++stage.at;
    }
    return stage.at > before;
  }
  void drain(size_t s) {
    StageState& stage = stages_[s];
    if (stage.at != stage.plan->commit || std::exchange(stage.drained, true)) return;
    clock_.drains(s, stage.at);
  }

  bool transfer(size_t s) {
    bool moves = false;
    for (size_t l = 0; l < kLanes; ++l)
      while (!stages_[s].queued[l].empty() && move(s, static_cast<Lane>(l))) moves = true;
    return moves;
  }
  /// Completes the first transfer of the lane if it can complete; returns true if it did.
  bool move(size_t s, Lane lane) {
    const auto i = static_cast<size_t>(stages_[s].queued[static_cast<size_t>(lane)].front());
    if (!is_message(stages_[s].plan->instructions[i].op)) {
      clock_.sums(s, i);
    } else {
      const LaneEnd other = other_end(s, lane, stages_.size());
      const std::deque<int32_t>& there = stages_[other.stage].queued[static_cast<size_t>(other.lane)];
      if (there.empty()) return false;
      clock_.passes(s, i, other.stage, static_cast<size_t>(there.front()));
      finish(other.stage, other.lane);
    }
    finish(s, lane);
    return true;
  }
  void finish(size_t s, Lane lane) {
    std::deque<int32_t>& queue = stages_[s].queued[static_cast<size_t>(lane)];
    stages_[s].done[lane] = queue.front();
    queue.pop_front();
  }

  bool meet() {
    for (const StageState& stage : stages_)
      if (stage.ends() || stage.waits_for() != Lane::kCompute || !stage.is_world_collective()) return false;
    for (size_t s = 0; s < stages_.size(); ++s) drain(s);
    clock_.runs_together(stages_);
    for (StageState& stage : stages_) ++stage.at;
    return true;
  }

  std::vector<StageState> stages_;
  Clock& clock_;
};

}  // namespace hawser::plan
