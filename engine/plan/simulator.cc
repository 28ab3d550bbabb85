#include "engine/plan/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.h"

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
  for (const double seconds : costs.seconds) check_cost("seconds of an instruction", seconds);
  check_cost("seconds_per_flop", costs.seconds_per_flop);
  check_cost("seconds_per_instruction", costs.seconds_per_instruction);
  check_cost("latency", costs.latency);
  check_cost("exchange_bytes_per_second", costs.exchange_bytes_per_second);
  check_cost("exchange_latency", costs.exchange_latency);
  for (const Instruction& n : plan.instructions)
    if (is_move(n.op) && !(costs.offload_bytes_per_second > 0))
      fail(Code::kInvalidArgument, "simulate: offload_bytes_per_second is {}, but plan {} offloads",
           costs.offload_bytes_per_second, plan.name);
  for (const Instruction& n : plan.instructions)
    if (n.sent_bytes > 0 && !(costs.bytes_per_second > 0))
      fail(Code::kInvalidArgument, "simulate: bytes_per_second is {}, but plan {} sends bytes",
           costs.bytes_per_second, plan.name);
}

/// The compute lane queues transfers one by one, so waiting for a later one would never end.
void check_waits(const Plan& plan, size_t index) {
  const Instruction& n = plan.instructions[index];
  for (size_t l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (n.waits_for[lane] < 0) continue;
    const auto awaited = static_cast<size_t>(n.waits_for[lane]);
    if (awaited >= index)
      fail(Code::kInternal,
           "plan {}: instruction {} ({}) waits for instruction {}, which comes no earlier: it would stop for "
           "ever",
           plan.name, index, op_name(n.op), awaited);
    const Instruction& transfer = plan.instructions[awaited];
    if (!transfer.is_transfer() || transfer.lane != lane)
      fail(Code::kInternal,
           "plan {}: instruction {} ({}) waits for instruction {} ({}), which is no transfer of lane {}",
           plan.name, index, op_name(n.op), awaited, op_name(transfer.op), lane_name(lane));
  }
}

/// The compute lane of one rank. Times in seconds from the start.
class RankClock {
 public:
  RankClock(const Plan& plan, const CostTable& costs) : plan_(plan), costs_(costs) {
    line_.times.resize(plan.instructions.size());
  }

  double now() const { return now_; }
  Timeline take() { return std::move(line_); }
  double transfer_seconds(const Instruction& n) const {
    if (is_move(n.op)) return static_cast<double>(moved_bytes(plan_, n)) / costs_.offload_bytes_per_second;
    return costs_.latency +
           (n.sent_bytes > 0 ? static_cast<double>(n.sent_bytes) / costs_.bytes_per_second : 0);
  }
  void stand_still(size_t instruction, double until) {
    if (until <= now_) return;
    line_.waits.push_back({instruction, now_, until});
    now_ = until;
  }

  /// The compute lane reaches an instruction. Returns when what it waits for is done.
  double turn(size_t i) {
    line_.times[i].ready = now_;
    double there = now_;
    for (size_t lane = 0; lane < kLanes; ++lane)
      if (const int32_t awaited = plan_.instructions[i].waits_for[static_cast<Lane>(lane)]; awaited >= 0)
        there = std::max(there, line_.times[static_cast<size_t>(awaited)].sent_end);
    return there;
  }
  void transfer(size_t i, double begin, double end) {
    line_.times[i].sent_begin = begin, line_.times[i].sent_end = end;
    if (plan_.instructions[i].is_transfer()) line_.times[i].begin = begin, line_.times[i].end = end;
  }
  double exchange_seconds(const Instruction& n) const {
    const double rate =
        costs_.exchange_bytes_per_second > 0 ? costs_.exchange_bytes_per_second : costs_.bytes_per_second;
    double seconds = 0;
    for (const ExchangeNote& note : n.exchanges)
      seconds += costs_.exchange_latency + static_cast<double>(note.bytes) / rate;
    return seconds;
  }
  void compute(size_t i, double exchanging) {
    Times& t = line_.times[i];
    t.begin = now_;
    t.exchanging = exchanging;
    now_ += exchanging + compute_seconds(i);
    t.end = now_;
    if (!meets_others(plan_.instructions[i])) t.sent_begin = t.sent_end = t.begin;
  }
  /// The last rank of a block's exchanges is done: nobody ends before.
  void end_with(size_t i, double end) {
    line_.times[i].exchanging += end - now_;
    line_.times[i].end = now_ = end;
  }
  double compute_seconds(size_t i) const {
    return costs_.seconds.empty()
               ? costs_.seconds_per_instruction + plan_.instructions[i].flops * costs_.seconds_per_flop
               : costs_.seconds[i];
  }

 private:
  const Plan& plan_;
  const CostTable& costs_;
  Timeline line_;
  double now_ = 0;
};

/// All ranks and the communication lanes they share.
class Simulation {
 public:
  Simulation(const Plan& plan, const std::vector<CostTable>& ranks) : plan_(plan) {
    for (const CostTable& costs : ranks) ranks_.emplace_back(plan, costs);
  }

  std::vector<Timeline> run() {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      if (i == plan_.commit) drain(i);
      check_waits(plan_, i);
      step(i);
    }
    drain(plan_.instructions.size());
    std::vector<Timeline> lines;
    for (RankClock& rank : ranks_) lines.push_back(rank.take());
    return lines;
  }

 private:
  void step(size_t i) {
    const Instruction& n = plan_.instructions[i];
    const bool meets = meets_others(n), transfer = n.is_transfer();
    double& lane_free = free_[static_cast<size_t>(sending_lane(n))];
    double begin = lane_free, takes = 0;
    for (RankClock& rank : ranks_) {
      const double can_go = rank.turn(i);
      if (!meets) rank.stand_still(i, can_go);
      begin = std::max(begin, can_go);
      takes = std::max(takes, rank.transfer_seconds(n));
    }
    if (transfer || meets) {
      lane_free = begin + takes;
      for (RankClock& rank : ranks_) rank.transfer(i, begin, lane_free);
    }
    if (!n.exchanges.empty()) return exchange(i);
    for (RankClock& rank : ranks_) {
      if (meets) rank.stand_still(i, lane_free);
      if (!transfer) rank.compute(i, 0);
    }
  }

  /// An instruction that all ranks compute together.
  void exchange(size_t i) {
    double begin = 0, takes = 0, end = 0;
    for (const RankClock& rank : ranks_) {
      begin = std::max(begin, rank.now());
      takes = std::max(takes, rank.exchange_seconds(plan_.instructions[i]));
    }
    for (RankClock& rank : ranks_) {
      rank.stand_still(i, begin);
      rank.compute(i, takes);
      end = std::max(end, rank.now());
    }
    for (RankClock& rank : ranks_) rank.end_with(i, end);
  }

  void drain(size_t instruction) {
    const double all = *std::max_element(free_.begin(), free_.end());
    for (RankClock& rank : ranks_) rank.stand_still(instruction, all);
  }

  const Plan& plan_;
  std::vector<RankClock> ranks_;
  std::array<double, kLanes> free_{};  // when each communication lane becomes free
};

}  // namespace

std::vector<Timeline> simulate(const Plan& plan, const std::vector<CostTable>& ranks) {
  for (const CostTable& costs : ranks) check_costs(plan, costs);
  return Simulation(plan, ranks).run();
}

Timeline simulate(const Plan& plan, const CostTable& costs) {
  return std::move(simulate(plan, std::vector<CostTable>{costs}).front());
}

}  // namespace hawser::plan
