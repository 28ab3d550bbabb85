// Play: walks through the plans of all stages of a pipeline together, by the rules of the executor and of
// lanes:
//   * The compute lane of a stage takes its instructions in order, each once the transfers that it names are
//     done. A transfer joins its lane, and the compute lane goes on.
//   * A transfer between ranks of one stage, whose plans are the same, is done when its turn in its lane
//     comes.
//   * A message goes when its turn has come at both ends.
//   * All stages come to an agreement of the world, or none passes it.
//   * Between the two halves of a step, and at the end, nothing is in flight.
// flow.h asks whether the plans come to their end, simulator.h when. A clock hears what happens, each only
// once all that it depends on has happened.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"

namespace hawser::plan {

/// One stage, as far as it has come.
struct StageState {
  explicit StageState(const Plan& of) : plan(&of) {}

  const Plan* plan;
  size_t at = 0;         ///< the next instruction of the compute lane
  bool drained = false;  ///< the first half is over
  LaneMarks done;
  std::array<std::deque<int32_t>, kLanes> queued;

  bool ends() const { return at == plan->instructions.size(); }
  const Instruction& next() const { return plan->instructions[at]; }
  bool idle() const;
  /// Whether the next instruction is an agreement of the whole world.
  bool meets() const {
    return next().op == Op::kCountTokens || (next().op == Op::kGradNorm && next().block < 0);
  }
  /// The lane that the next instruction waits for; kCompute if none.
  Lane waits_for() const;
};

/// The end of a lane on another stage.
struct LaneEnd {
  size_t stage;
  Lane lane;
};
/// Where a message of this stage's lane goes to or comes from, in a pipeline of that many stages.
LaneEnd other_end(size_t stage, Lane lane, size_t stages);

/// What each stage waits for.
std::string where(const std::vector<StageState>& stages);

/// The clock has these functions, for instructions by stage and index:
///   void runs(size_t stage, size_t i);        the compute lane runs it
///   void gives(size_t stage, size_t i);       the compute lane gives it to its lane
///   void sums(size_t stage, size_t i);        a transfer between the ranks of the stage is done
///   void passes(size_t stage, size_t i, size_t other, size_t j);
///                                             a message, i at one end and j at the other, is done
///   void meets(const std::vector<StageState>& stages);
///                                             all stages run their next instruction together
///   void drains(size_t stage, size_t i);      all transfers before i are done, and the compute lane waited
///                                             for them
template <typename Clock>
class Play {
 public:
  Play(const std::vector<const Plan*>& plans, Clock* clock) : clock_(*clock) {
    for (const Plan* plan : plans) stages_.emplace_back(*plan);
  }

  /// "" if the plans come to their end; else what each stage waits for.
  std::string run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t s = 0; s < stages_.size(); ++s) {
        moves |= compute(s);
        moves |= transfer(s);
      }
      moves |= meet();
    }
    for (const StageState& stage : stages_)
      if (!stage.ends() || !stage.idle()) return where(stages_);
    for (size_t s = 0; s < stages_.size(); ++s) clock_.drains(s, stages_[s].at);
    return "";
  }

 private:
  bool compute(size_t s) {
    StageState& stage = stages_[s];
    const size_t before = stage.at;
    while (!stage.ends() && stage.waits_for() == Lane::kCompute && !stage.meets()) {
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
  /// The first transfer of the lane, if it can go.
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
      if (stage.ends() || stage.waits_for() != Lane::kCompute || !stage.meets()) return false;
    for (size_t s = 0; s < stages_.size(); ++s) drain(s);
    clock_.meets(stages_);
    for (StageState& stage : stages_) ++stage.at;
    return true;
  }

  std::vector<StageState> stages_;
  Clock& clock_;
};

}  // namespace hawser::plan
