#include "engine/plan/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.h"
#include "engine/plan/overlap_times.h"
#include "engine/plan/pipeline_replay.h"

namespace hawser::plan {
namespace {

void check_cost(const char* name, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    fail(Code::kInvalidArgument, "simulate: {} is {}; it must be 0 or more, and finite", name, value);
}

void check_costs(const Plan& plan, const CostTable& costs) {
  if (!costs.seconds.empty() && costs.seconds.size() != plan.instructions.size())
    fail(Code::kInvalidArgument, "simulate: {} measured costs for the {} instructions of plan {}",
         costs.seconds.size(), plan.instructions.size(), plan.name);
  if (!costs.transfer_seconds.empty() && costs.transfer_seconds.size() != plan.instructions.size())
    fail(Code::kInvalidArgument, "simulate: {} measured transfers for the {} instructions of plan {}",
         costs.transfer_seconds.size(), plan.instructions.size(), plan.name);
  for (const double seconds : costs.seconds) check_cost("seconds of an instruction", seconds);
  for (const double seconds : costs.transfer_seconds) check_cost("seconds of a transfer", seconds);
  check_cost("seconds_per_flop", costs.seconds_per_flop);
  check_cost("seconds_per_instruction", costs.seconds_per_instruction);
  check_cost("latency", costs.latency);
  check_cost("exchange_bytes_per_second", costs.exchange_bytes_per_second);
  check_cost("exchange_latency", costs.exchange_latency);
  if (!costs.transfer_seconds.empty()) return;
  for (const Instruction& n : plan.instructions) {
    if (is_move(n.op) && !(costs.offload_bytes_per_second > 0))
      fail(Code::kInvalidArgument, "simulate: offload_bytes_per_second is {}, but plan {} offloads",
           costs.offload_bytes_per_second, plan.name);
    if (n.on_host() && !(costs.host_bytes_per_second > 0))
      fail(Code::kInvalidArgument, "simulate: host_bytes_per_second is {}, but the host works in plan {}",
           costs.host_bytes_per_second, plan.name);
    if (n.sent_bytes > 0 && !(costs.bytes_per_second > 0))
      fail(Code::kInvalidArgument, "simulate: bytes_per_second is {}, but plan {} sends bytes",
           costs.bytes_per_second, plan.name);
  }
}

/// Rejects a wait for a transfer that does not precede `index`: the compute lane would block before queuing
/// it.
void check_waits(const Plan& plan, size_t index) {
  const Instruction& n = plan.instructions[index];
  for (size_t l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (n.waits_for[lane] < 0) continue;
    const auto awaited = static_cast<size_t>(n.waits_for[lane]);
    if (awaited >= index)
      fail(Code::kInternal,
           "plan {}: instruction {} ({}) waits for instruction {}, which does not precede it: the plan would "
           "deadlock",
           plan.name, index, op_name(n.op), awaited);
    const Instruction& transfer = plan.instructions[awaited];
    if (!transfer.is_transfer() || transfer.lane != lane)
      fail(Code::kInternal,
           "plan {}: instruction {} ({}) waits for instruction {} ({}), which is not a transfer of lane {}",
           plan.name, index, op_name(n.op), awaited, op_name(transfer.op), lane_name(lane));
  }
}

/// The clock of one rank, with its compute lane and its communication lanes. Times are in seconds from the
/// start.
class RankClock {
 public:
  RankClock(const Plan& plan, const CostTable& costs) : plan_(plan), costs_(costs) {
    line_.times.resize(plan.instructions.size());
  }

  double now() const { return now_; }
  Timeline take() { return std::move(line_); }
  /// Returns when the lane can begin a transfer that the rank has queued.
  double can_begin(size_t i) const { return std::max(line_.times[i].begin, free(i)); }
  double free(size_t i) const { return free_[lane_of(i)]; }
  /// Returns when all transfers so far that do not cross the border are done. Those that cross it are awaited
  /// by the instructions that use what they fetch.
  double drained() const { return drained_; }
  double transfer_seconds(size_t i) const {
    if (!costs_.transfer_seconds.empty()) return costs_.transfer_seconds[i];
    if (is_move(plan_.instructions[i].op))
      return static_cast<double>(moved_bytes(plan_, plan_.instructions[i])) / costs_.offload_bytes_per_second;
    if (plan_.instructions[i].on_host())
      return static_cast<double>(used_bytes(plan_.instructions[i])) / costs_.host_bytes_per_second;
    const int64_t bytes = plan_.instructions[i].sent_bytes;
    return costs_.latency + (bytes > 0 ? static_cast<double>(bytes) / costs_.bytes_per_second : 0);
  }
  double exchange_seconds(size_t i) const {
    return costs_.all_exposed_seconds(plan_.instructions[i], compute_seconds(i));
  }

  void stand_still(size_t instruction, double until) {
    if (until <= now_) return;
    line_.waits.push_back({instruction, now_, until});
    now_ = until;
  }
  /// Records when the compute lane reaches an instruction. Returns when what it waits for is done.
  double turn(size_t i) {
    line_.times[i].ready = now_;
    double there = now_;
    for (size_t lane = 0; lane < kLanes; ++lane)
      if (const int32_t awaited = plan_.instructions[i].waits_for[static_cast<Lane>(lane)]; awaited >= 0)
        there = std::max(there, line_.times[static_cast<size_t>(awaited)].sent_end);
    return there;
  }
  void give(size_t i) {
    stand_still(i, turn(i));
    if (!costs_.seconds.empty()) now_ += costs_.seconds[i];
    line_.times[i].begin = now_;
  }
  void transfer(size_t i, double begin, double end) {
    Times& t = line_.times[i];
    t.sent_begin = begin, t.sent_end = free_[lane_of(i)] = end;
    if (!plan_.crosses(i)) drained_ = std::max(drained_, end);
    if (plan_.instructions[i].is_transfer()) t.begin = begin, t.end = end;
  }
  void compute(size_t i, double exchanging) {
    Times& t = line_.times[i];
    t.begin = now_;
    t.exchanging = exchanging;
    t.beside = hidden_seconds(plan_.instructions[i], exchanging);
    now_ += exchanging + compute_seconds(i);
    t.end = now_;
    if (!starts_with_collective(plan_.instructions[i])) t.sent_begin = t.sent_end = t.begin;
  }
  /// Runs two overlapped instructions, of which `i` is the first. A trace measures only their sum, which is
  /// split here by their FLOPs.
  void compute_pair(size_t i) {
    const double one = plan_.instructions[i].flops, other = plan_.instructions[i + 1].flops;
    double first = compute_seconds(i), second = compute_seconds(i + 1);
    if (const double all = first + second; !costs_.seconds.empty() && one + other > 0)
      first = all * one / (one + other), second = all - first;
    const PairTimes both = overlap_times(half(i, first), half(i + 1, second));
    Times& t = line_.times[i];
    t.begin = t.sent_begin = t.sent_end = now_;
    now_ += both.all;
    t.exchanging = both.exchanging, t.beside = both.beside;
  }
  /// Extends the instruction until the last rank of the block's exchanges is done, because no rank ends
  /// earlier.
  void end_with(size_t i, double end) {
    line_.times[i].exchanging += end - now_;
    line_.times[i].end = now_ = end;
    if (plan_.instructions[i].overlaps_next) line_.times[i + 1] = {end, end, end, end, end};
  }

 private:
  int64_t used_bytes(const Instruction& n) const {
    int64_t bytes = 0;
    for (const Use& use : n.uses) bytes += plan_.slot(use.slot).bytes;
    return bytes;
  }
  size_t lane_of(size_t i) const { return static_cast<size_t>(sending_lane(plan_.instructions[i])); }
  /// Returns for how many seconds the instruction's exchanges run while it computes.
  double hidden_seconds(const Instruction& n, double exposed) const {
    if (!any_hidden(n.exchanges)) return 0;
    double all = 0;
    for (const ExchangeNote& note : n.exchanges) all += costs_.exchange_seconds(note);
    return std::max(0.0, all - exposed);
  }
  /// Spreads the instruction's computation over its exchanges by FLOPs. Exchanges of experts share a lane;
  /// all others are awaited by the instruction itself.
  PairHalf half(size_t i, double seconds) const {
    const Instruction& n = plan_.instructions[i];
    PairHalf half{{}, seconds};
    const double per_flop = n.flops > 0 ? seconds / n.flops : 0;
    const std::vector<double> exposed = costs_.exposed_seconds(n, seconds);
    for (size_t e = 0; e < exposed.size(); ++e) {
      const ExchangeNote& note = n.exchanges[e];
      const double flops = note.flops + std::max(0.0, note.hiding_flops);
      half.steps.push_back({flops * per_flop, exposed[e], note.beside, is_of(note, "ep")});
      half.rest -= half.steps.back().compute;
    }
    return half;
  }
  double compute_seconds(size_t i) const {
    return costs_.seconds.empty()
               ? costs_.seconds_per_instruction + plan_.instructions[i].flops * costs_.seconds_per_flop
               : costs_.seconds[i];
  }

  const Plan& plan_;
  const CostTable& costs_;
  Timeline line_;
  double now_ = 0;
  std::array<double, kLanes> free_{};  // when each communication lane becomes free
  double drained_ = 0;
};

/// The clocks of all ranks, by stage (pipeline_replay.h).
class Clocks {
 public:
  Clocks(const std::vector<const Plan*>& plans, const std::vector<std::vector<CostTable>>& costs)
      : plans_(plans) {
    for (size_t s = 0; s < plans.size(); ++s) {
      std::vector<RankClock>& ranks = stages_.emplace_back();
      for (const CostTable& c : costs[s]) ranks.emplace_back(*plans[s], c);
    }
  }

  std::vector<std::vector<Timeline>> take() {
    std::vector<std::vector<Timeline>> lines(stages_.size());
    for (size_t s = 0; s < stages_.size(); ++s)
      for (RankClock& rank : stages_[s]) lines[s].push_back(rank.take());
    return lines;
  }

  void runs(size_t s, size_t i) {
    const std::vector<Instruction>& all = plans_[s]->instructions;
    if (i > 0 && all[i - 1].overlaps_next) return;  // it ran with the first of the two
    for (RankClock& rank : stages_[s]) rank.stand_still(i, rank.turn(i));
    if (all[i].overlaps_next || !all[i].exchanges.empty())
      return exchange(stages_[s], i, all[i].overlaps_next);
    for (RankClock& rank : stages_[s]) rank.compute(i, 0);
  }
  void gives(size_t s, size_t i) {
    for (RankClock& rank : stages_[s]) rank.give(i);
  }
  void sums(size_t s, size_t i) {
    if (is_own(plans_[s]->instructions[i].lane)) return moves(s, i);
    double begin = 0, takes = 0;
    for (const RankClock& rank : stages_[s]) {
      begin = std::max(begin, rank.can_begin(i));
      takes = std::max(takes, rank.transfer_seconds(i));
    }
    for (RankClock& rank : stages_[s]) rank.transfer(i, begin, begin + takes);
  }
  void moves(size_t s, size_t i) {
    for (RankClock& rank : stages_[s])
      rank.transfer(i, rank.can_begin(i), rank.can_begin(i) + rank.transfer_seconds(i));
  }
  /// Each rank of a stage exchanges messages with the rank of the same index in the other stage.
  void passes(size_t s, size_t i, size_t other, size_t j) {
    for (size_t r = 0; r < stages_[s].size(); ++r) {
      RankClock &here = stages_[s][r], &there = stages_[other][r];
      const double begin = std::max(here.can_begin(i), there.can_begin(j));
      const double end = begin + std::max(here.transfer_seconds(i), there.transfer_seconds(j));
      here.transfer(i, begin, end), there.transfer(j, begin, end);
    }
  }
  void runs_together(const std::vector<StageState>& stages) {
    double begin = 0, takes = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      const size_t i = stages[s].at;
      if (!starts_with_collective(stages[s].next())) return runs_all(stages);
      for (RankClock& rank : stages_[s]) {
        begin = std::max({begin, rank.turn(i), rank.free(i)});
        takes = std::max(takes, rank.transfer_seconds(i));
      }
    }
    for (size_t s = 0; s < stages.size(); ++s)
      for (RankClock& rank : stages_[s]) {
        rank.transfer(stages[s].at, begin, begin + takes);
        rank.stand_still(stages[s].at, begin + takes);
        rank.compute(stages[s].at, 0);
      }
  }
  void drains(size_t s, size_t i) {
    double all = 0;
    for (const RankClock& rank : stages_[s]) all = std::max(all, rank.drained());
    for (RankClock& rank : stages_[s]) rank.stand_still(i, all);
  }

 private:
  /// A world of one rank has no collectives: runs the instruction as plain compute.
  void runs_all(const std::vector<StageState>& stages) {
    for (size_t s = 0; s < stages.size(); ++s) runs(s, stages[s].at);
  }

  /// Runs an instruction that all ranks of a stage compute together.
  static void exchange(std::vector<RankClock>& ranks, size_t i, bool pair) {
    double begin = 0, takes = 0, end = 0;
    for (const RankClock& rank : ranks) {
      begin = std::max(begin, rank.now());
      takes = std::max(takes, rank.exchange_seconds(i));
    }
    for (RankClock& rank : ranks) {
      rank.stand_still(i, begin);
      pair ? rank.compute_pair(i) : rank.compute(i, takes);
      end = std::max(end, rank.now());
    }
    for (RankClock& rank : ranks) rank.end_with(i, end);
  }

  const std::vector<const Plan*>& plans_;
  std::vector<std::vector<RankClock>> stages_;
};

}  // namespace

double CostTable::exchange_seconds(const ExchangeNote& note) const {
  const auto bytes = static_cast<double>(note.bytes);
  for (const ExchangeRate& rate : exchange_rates)
    if (rate.is_of(note)) return rate.latency + bytes * rate.seconds_per_byte;
  return exchange_latency +
         bytes / (exchange_bytes_per_second > 0 ? exchange_bytes_per_second : bytes_per_second);
}

/// Calls visit(seconds) for each exchange of an instruction that computes for `seconds`: how long the rank
/// waits for it.
template <class Visit>
void CostTable::each_exposed(const Instruction& n, double seconds, const Visit& visit) const {
  const double per_flop = n.flops > 0 ? seconds / n.flops : 0;
  double now = 0, free = 0;  // the rank's time; when the lane of its exchanges is free
  for (const ExchangeNote& note : n.exchanges) {
    now += note.flops * per_flop;
    free = std::max(now, free) + exchange_seconds(note);
    if (note.hiding_flops == ExchangeNote::kUntilNext) {
      visit(0.0);
      continue;
    }
    now += note.hiding_flops * per_flop;
    visit(std::max(0.0, free - now));
    now = std::max(now, free);
  }
}

std::vector<double> CostTable::exposed_seconds(const Instruction& n, double seconds) const {
  std::vector<double> exposed;
  each_exposed(n, seconds, [&](double one) { exposed.push_back(one); });
  return exposed;
}

double CostTable::all_exposed_seconds(const Instruction& n, double seconds) const {
  double all = 0;
  each_exposed(n, seconds, [&](double one) { all += one; });
  return all;
}

std::vector<std::vector<Timeline>> simulate(const std::vector<const Plan*>& stages,
                                            const std::vector<std::vector<CostTable>>& ranks) {
  HWS_CHECK(stages.size() == ranks.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    if (ranks[s].size() != ranks.front().size())
      fail(Code::kInvalidArgument, "simulate: stage {} has {} ranks, stage 0 has {}", s, ranks[s].size(),
           ranks.front().size());
    for (const CostTable& costs : ranks[s]) check_costs(*stages[s], costs);
    for (size_t i = 0; i < stages[s]->instructions.size(); ++i) check_waits(*stages[s], i);
  }
  Clocks clocks(stages, ranks);
  if (const std::string stopped = PipelineReplay<Clocks>(stages, &clocks).run(); !stopped.empty())
    fail(Code::kInternal, "the plans would deadlock: {}", stopped);
  return clocks.take();
}

std::vector<Timeline> simulate(const Plan& plan, const std::vector<CostTable>& ranks) {
  return std::move(simulate(std::vector{&plan}, {ranks}).front());
}

Timeline simulate(const Plan& plan, const CostTable& costs) {
  return std::move(simulate(plan, std::vector<CostTable>{costs}).front());
}

}  // namespace hawser::plan
