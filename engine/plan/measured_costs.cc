#include "engine/plan/measured_costs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.h"
#include "engine/plan/pipeline_replay.h"

namespace hawser::plan {
namespace {

/// One transfer on one rank: when its lane could begin it, and when it was done.
struct End {
  double can_begin = 0, done = 0;
  double* seconds = nullptr;  // the cost in the rank's table
};

/// Sets the cost of a transfer: the time from when all its ranks could begin until it was done on all of
/// them.
void measure(const std::vector<End>& ends) {
  double begin = 0, done = 0;
  for (const End& end : ends) begin = std::max(begin, end.can_begin), done = std::max(done, end.done);
  for (const End& end : ends) *end.seconds = std::max(0.0, done - begin);
}

/// Measures the costs of a rank's compute lane, and collects the ends of its transfers by lane, in order.
class RankCosts {
 public:
  RankCosts(const Plan& plan, const Timeline& line, CostTable* costs) : plan_(plan), line_(line) {
    if (line.times.size() != plan.instructions.size())
      fail(Code::kFailedPrecondition, "the traced step did not finish, so its costs are unknown");
    costs->seconds.resize(line.times.size()), costs->transfer_seconds.resize(line.times.size());
    LaneMarks last;
    for (size_t i = 0; i < line.times.size(); ++i) {
      const Instruction& n = plan.instructions[i];
      const double done = leaves(i);
      costs->seconds[i] = std::max(0.0, done - could_begin(i) - line.times[i].exchanging);
      if (!n.is_transfer() && !starts_with_collective(n)) continue;
      const Lane lane = sending_lane(n);
      const double free = last[lane] < 0 ? 0 : sent_end(last[lane]);
      last[lane] = static_cast<int32_t>(i);
      const double given = n.is_transfer() ? done : line.times[i].ready;
      std::vector<End>& to = n.is_transfer() ? lanes_[static_cast<size_t>(lane)] : meetings_;
      to.push_back({std::max(given, free), sent_end(i), &costs->transfer_seconds[i]});
    }
  }

  const std::vector<End>& of(Lane lane) const { return lanes_[static_cast<size_t>(lane)]; }
  const std::vector<End>& meetings() const { return meetings_; }

 private:
  double sent_end(size_t i) const { return line_.times[i].sent_end; }
  double sent_end(int32_t i) const { return sent_end(static_cast<size_t>(i)); }

  /// Returns when everything that the instruction waits for was done. The time to wake up is part of its
  /// cost.
  double could_begin(size_t i) const {
    const Instruction& n = plan_.instructions[i];
    double there = line_.times[i].ready;
    for (size_t l = 0; l < kLanes; ++l)
      if (const int32_t awaited = n.waits_for[static_cast<Lane>(l)]; awaited >= 0)
        there = std::max(there, sent_end(awaited));
    if (starts_with_collective(n)) there = std::max(there, sent_end(i));
    return there;
  }
  /// Returns when the compute lane continued after the instruction.
  double leaves(size_t i) const {
    if (i + 1 == line_.times.size()) return leaves_last(i);
    const double next = line_.times[i + 1].ready;
    if (i + 1 != plan_.commit) return next;
    // Between the phases the compute lane waits for all transfers that do not cross the border; that wait is
    // not part of the instruction's cost.
    double drained = line_.times[i].end;
    for (size_t t = 0; t <= i; ++t)
      if (!plan_.crosses(t)) drained = std::max(drained, sent_end(t));
    return line_.times[i].end + std::max(0.0, next - drained);
  }
  double leaves_last(size_t i) const {
    for (const Wait& w : line_.waits)
      if (w.instruction == line_.times.size()) return w.begin;
    return plan_.instructions[i].is_transfer() ? line_.times[i].ready : line_.times[i].end;
  }

  const Plan& plan_;
  const Timeline& line_;
  std::array<std::vector<End>, kLanes> lanes_;
  std::vector<End> meetings_;  // collectives of all ranks
};

/// Measures lanes whose k-th entries are one and the same transfer.
void measure_all(const std::vector<const std::vector<End>*>& lanes) {
  for (size_t k = 0; k < lanes.front()->size(); ++k) {
    std::vector<End> ends;
    for (const std::vector<End>* lane : lanes) ends.push_back(lane->at(k));
    measure(ends);
  }
}

/// Returns the mean duration of an exchange within a block, measured on the rank that arrived last: the other
/// ranks also waited for that rank.
double exchange_seconds(const Plan& plan, const std::vector<Timeline>& ranks) {
  double seconds = 0;
  size_t exchanges = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].exchanges.empty()) continue;
    double least = INFINITY;
    for (const Timeline& line : ranks)
      least = std::min(least, line.times[i].exchanging + line.times[i].beside);
    seconds += least, exchanges += plan.instructions[i].exchanges.size();
  }
  return exchanges > 0 ? seconds / static_cast<double>(exchanges) : 0;
}

/// True if the lane connects this stage with another stage.
bool leads_away(Lane lane) {
  return lane != Lane::kDataParallel && lane != Lane::kBlock && lane != Lane::kCompute;
}

}  // namespace

std::vector<std::vector<CostTable>> measured_costs(const std::vector<const Plan*>& stages,
                                                   const std::vector<std::vector<Timeline>>& ranks) {
  std::vector<std::vector<CostTable>> costs(stages.size());
  std::vector<std::vector<RankCosts>> measured(stages.size());
  std::vector<const std::vector<End>*> meetings;
  for (size_t s = 0; s < stages.size(); ++s) {
    costs[s].resize(ranks[s].size());
    for (size_t r = 0; r < ranks[s].size(); ++r)
      measured[s].emplace_back(*stages[s], ranks[s][r], &costs[s][r]);
    for (const RankCosts& rank : measured[s]) meetings.push_back(&rank.meetings());
    const double exchange = exchange_seconds(*stages[s], ranks[s]);
    for (CostTable& c : costs[s]) c.exchange_latency = exchange, c.exchange_bytes_per_second = 1e300;
  }
  measure_all(meetings);
  for (size_t s = 0; s < stages.size(); ++s)
    for (size_t l = 0; l < kLanes; ++l) {
      const auto lane = static_cast<Lane>(l);
      if (is_own(lane)) {
        for (const RankCosts& rank : measured[s]) measure_all({&rank.of(lane)});
        continue;
      }
      if (!leads_away(lane) || stages.size() == 1) {
        std::vector<const std::vector<End>*> own;
        for (const RankCosts& rank : measured[s]) own.push_back(&rank.of(lane));
        measure_all(own);
        continue;
      }
      const LaneEnd other = other_end(s, lane, stages.size());
      for (size_t r = 0; r < measured[s].size(); ++r)
        measure_all({&measured[s][r].of(lane), &measured[other.stage][r].of(other.lane)});
    }
  return costs;
}

PipelineSummary predict_step(const std::vector<const Plan*>& stages,
                             const std::vector<std::vector<Timeline>>& ranks) {
  return summarise_pipeline(stages, simulate(stages, measured_costs(stages, ranks)));
}

PipelineSummary summarise_pipeline(const std::vector<const Plan*>& stages,
                                   const std::vector<std::vector<Timeline>>& ranks) {
  std::vector<const Plan*> plans;
  std::vector<Timeline> lines;
  for (size_t s = 0; s < stages.size(); ++s)
    for (const Timeline& line : ranks[s]) plans.push_back(stages[s]), lines.push_back(line);
  return summarise_pipeline(plans, lines);
}

}  // namespace hawser::plan
