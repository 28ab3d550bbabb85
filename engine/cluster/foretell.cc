#include "engine/cluster/foretell.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hawser::cluster {
namespace {

using parallel::TransferGroup;
using plan::Instruction;
using plan::Lane;
using plan::Times;
using plan::Wait;

/// Attributes the seconds of a stage to computing, waits for each group, copies and the bubble.
class Ascribed {
 public:
  Ascribed(const StageProblem& stage, const plan::CostTable& costs, const plan::Timeline& line)
      : plan_(*stage.plan), costs_(costs), line_(line) {}

  StageTimes times(double makespan) {
    for (size_t i = 0; i < line_.times.size(); ++i) add_instruction(i);
    for (const Wait& wait : line_.waits) add_wait(wait);
    double accounted = times_.computing + times_.copies + times_.bubble + times_.exposed_in_all();
    times_.bubble += std::max(0.0, makespan - accounted);
    return times_;
  }

 private:
  /// Adds the seconds of an instruction. The time that it waited for its exchanges is divided among them: for
  /// a pair in proportion to their durations, otherwise in proportion to the wait for each.
  void add_instruction(size_t i) {
    const Instruction& n = plan_.instructions[i];
    if (n.is_transfer()) {
      times_.computing += costs_.seconds.empty() ? 0 : costs_.seconds[i];
      return;
    }
    const Times& t = line_.times[i];
    times_.computing += t.end - t.begin - t.exchanging;
    if (t.exchanging <= 0) return;
    std::vector<ExchangeNote> notes = n.exchanges;
    std::vector<double> shares;
    if (n.overlaps_next) {
      const std::vector<ExchangeNote>& other = plan_.instructions[i + 1].exchanges;
      notes.insert(notes.end(), other.begin(), other.end());
      for (const ExchangeNote& note : notes) shares.push_back(costs_.exchange_seconds(note));
    } else {
      shares = costs_.exposed_seconds(n, t.end - t.begin - t.exchanging);
    }
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (size_t e = 0; e < notes.size() && all > 0; ++e)
      exposed(parallel::sent_in(notes[e]).group) += t.exchanging * shares[e] / all;
  }

  /// Returns the transfer whose end ended the wait; the number of instructions if there is none.
  size_t awaited(const Wait& wait) const {
    const auto ends_then = [&](size_t j) { return line_.times[j].sent_end == wait.end; };
    const size_t none = plan_.instructions.size();
    if (wait.instruction == none || wait.instruction == plan_.commit) {
      for (size_t j = std::min(wait.instruction, none); j-- > 0;)
        if (plan_.instructions[j].is_transfer() && ends_then(j)) return j;
      if (wait.instruction == none) return none;
    }
    const Instruction& n = plan_.instructions[wait.instruction];
    if (plan::starts_with_collective(n) && ends_then(wait.instruction)) return wait.instruction;
    for (size_t l = 0; l < plan::kLanes; ++l) {
      const int32_t j = n.waits_for[static_cast<Lane>(l)];
      if (j >= 0 && ends_then(static_cast<size_t>(j))) return static_cast<size_t>(j);
    }
    return none;
  }

  void add_wait(const Wait& wait) {
    const double all = wait.end - wait.begin;
    const size_t j = awaited(wait);
    if (j == plan_.instructions.size()) {
      times_.bubble += all;
      return;
    }
    const Instruction& n = plan_.instructions[j];
    if (plan::is_own(n.lane)) {
      times_.copies += all;
      return;
    }
    const TransferGroup group = parallel::transfer_group(plan_, n);
    // A message or a collective of the world begins when the other stages have reached it, so the wait before
    // it begins is bubble. Other transfers wait only for earlier transfers of their own lane.
    const bool with_stages = group == TransferGroup::kStage || group == TransferGroup::kWorld;
    const double sent = with_stages ? wait.end - std::max(wait.begin, line_.times[j].sent_begin) : all;
    exposed(group) += sent;
    times_.bubble += all - sent;
  }

  double& exposed(TransferGroup group) { return times_.exposed[static_cast<size_t>(group)]; }

  const plan::Plan& plan_;
  const plan::CostTable& costs_;
  const plan::Timeline& line_;
  StageTimes times_;
};

}  // namespace

double StageTimes::exposed_in_all() const {
  double all = 0;
  for (const double seconds : exposed) all += seconds;
  return all;
}

StageTimes stage_times(const StageProblem& stage, const plan::CostTable& costs, const plan::Timeline& line,
                       double makespan) {
  return Ascribed(stage, costs, line).times(makespan);
}

StageTimes ForetoldStep::mean() const {
  StageTimes mean;
  const double share = 1 / static_cast<double>(stages.size());
  for (const StageTimes& s : stages) {
    mean.computing += share * s.computing, mean.copies += share * s.copies, mean.bubble += share * s.bubble;
    for (size_t g = 0; g < mean.exposed.size(); ++g) mean.exposed[g] += share * s.exposed[g];
  }
  return mean;
}

ForetoldStep foretell(const std::vector<StageProblem>& stages, const std::vector<plan::CostTable>& costs) {
  std::vector<const plan::Plan*> plans;
  std::vector<std::vector<plan::CostTable>> tables;
  for (size_t s = 0; s < stages.size(); ++s) {
    plans.push_back(stages[s].plan);
    tables.push_back({costs[s]});
  }
  ForetoldStep step;
  for (std::vector<plan::Timeline>& ranks : simulate(plans, tables))
    step.lines.push_back(std::move(ranks.front()));
  for (size_t s = 0; s < stages.size(); ++s)
    step.seconds = std::max(step.seconds, overlap_of(*plans[s], step.lines[s]).makespan);
  for (size_t s = 0; s < stages.size(); ++s)
    step.stages.push_back(stage_times(stages[s], tables[s].front(), step.lines[s], step.seconds));
  return step;
}

ForetoldStep foretell(const Cluster& cluster, const std::vector<StageProblem>& stages) {
  std::vector<plan::CostTable> costs;
  for (const StageProblem& stage : stages) costs.push_back(stage_costs(cluster, stage));
  return foretell(stages, costs);
}

}  // namespace hawser::cluster
