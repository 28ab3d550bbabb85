#include "engine/plan/flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace hawser::plan {
namespace {

/// Whether all ranks meet there: an agreement of the whole world.
bool meets_world(const Instruction& n) {
  return n.op == Op::kCountTokens || (n.op == Op::kGradNorm && n.block < 0);
}

/// One stage, as far as it has come.
struct StageState {
  const Plan* plan;
  size_t at = 0;  // the next instruction of the compute lane
  LaneMarks done;
  std::array<std::deque<int32_t>, kLanes> queued;

  bool ends() const { return at == plan->instructions.size(); }
  const Instruction& next() const { return plan->instructions[at]; }
  bool idle() const {
    return std::all_of(queued.begin(), queued.end(), [](const auto& lane) { return lane.empty(); });
  }
  /// The lane that the next instruction waits for; kCompute if none.
  Lane waits_for() const {
    for (size_t l = 0; l < kLanes; ++l) {
      const auto lane = static_cast<Lane>(l);
      const bool all = at == plan->commit && !queued[l].empty();  // nothing is in flight between the halves
      if (all || next().waits_for[lane] > done[lane]) return lane;
    }
    return Lane::kCompute;
  }
};

class Flow {
 public:
  explicit Flow(const std::vector<const Plan*>& plans) {
    for (const Plan* plan : plans) stages_.push_back({plan, 0, LaneMarks(), {}});
  }

  std::string run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t s = 0; s < stages_.size(); ++s) moves |= compute(s) | transfer(s);
      moves |= meet();
    }
    for (size_t s = 0; s < stages_.size(); ++s)
      if (!stages_[s].ends() || !stages_[s].idle()) return where();
    return "";
  }

 private:
  bool compute(size_t s) {
    StageState& stage = stages_[s];
    const size_t before = stage.at;
    while (!stage.ends() && stage.waits_for() == Lane::kCompute && !meets_world(stage.next())) {
      if (stage.next().is_transfer())
        stage.queued[static_cast<size_t>(stage.next().lane)].push_back(static_cast<int32_t>(stage.at));
      ++stage.at;
    }
    return stage.at > before;
  }

  /// The ranks of a stage have the same plan, so a transfer among them needs no one else.
  bool transfer(size_t s) {
    bool moves = false;
    for (size_t l = 0; l < kLanes; ++l) {
      const auto lane = static_cast<Lane>(l);
      while (!stages_[s].queued[l].empty()) {
        if (is_message(stages_[s].plan->instructions[static_cast<size_t>(stages_[s].queued[l].front())].op)) {
          const LaneEnd other = other_end(s, lane, stages_.size());
          if (stages_[other.stage].queued[static_cast<size_t>(other.lane)].empty()) break;
          finish(other.stage, other.lane);
        }
        finish(s, lane);
        moves = true;
      }
    }
    return moves;
  }
  void finish(size_t s, Lane lane) {
    std::deque<int32_t>& queue = stages_[s].queued[static_cast<size_t>(lane)];
    stages_[s].done[lane] = queue.front();
    queue.pop_front();
  }

  /// All stages come to an agreement, or none passes it.
  bool meet() {
    for (const StageState& stage : stages_)
      if (stage.ends() || stage.waits_for() != Lane::kCompute || !meets_world(stage.next())) return false;
    for (StageState& stage : stages_) ++stage.at;
    return true;
  }

  std::string where() const {
    std::string text;
    for (size_t s = 0; s < stages_.size(); ++s) {
      const StageState& stage = stages_[s];
      text += fmt::format("{}stage {} ", s > 0 ? "; " : "", s);
      if (stage.ends())
        text += "has given all";
      else
        text += fmt::format("at {} {} waits for {}", stage.at, op_name(stage.next().op),
                            lane_name(stage.waits_for()));
      for (size_t l = 0; l < kLanes; ++l)
        if (!stage.queued[l].empty())
          text += fmt::format(", {} has {}", lane_name(static_cast<Lane>(l)), stage.queued[l].front());
    }
    return text;
  }

  std::vector<StageState> stages_;
};

}  // namespace

LaneEnd other_end(size_t stage, Lane lane, size_t stages) {
  const size_t next = (stage + 1) % stages, previous = (stage + stages - 1) % stages;
  switch (lane) {
    case Lane::kXToNext:
      return {next, Lane::kXFromPrevious};
    case Lane::kXFromPrevious:
      return {previous, Lane::kXToNext};
    case Lane::kDxToPrevious:
      return {previous, Lane::kDxFromNext};
    case Lane::kDxFromNext:
      return {next, Lane::kDxToPrevious};
    case Lane::kXToPrevious:
      return {previous, Lane::kXFromNext};
    case Lane::kXFromNext:
      return {next, Lane::kXToPrevious};
    case Lane::kDxToNext:
      return {next, Lane::kDxFromPrevious};
    case Lane::kDxFromPrevious:
      return {previous, Lane::kDxToNext};
    default:  // a table, between the first and the last stage
      return {stages - 1 - stage, lane};
  }
}

std::string where_they_stop(const std::vector<const Plan*>& stages) { return Flow(stages).run(); }

}  // namespace hawser::plan
