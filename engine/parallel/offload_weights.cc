#include "engine/parallel/offload_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/parallel/offload_moves.h"

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Op;
using plan::Role;
using plan::SlotId;

bool are_weights(const plan::Slot& slot) {
  return slot.persistent && slot.bytes > 0 &&
         (slot.role == Role::kWeights || slot.role == Role::kWeightShards);
}

class OffloadWeights {
 public:
  OffloadWeights(plan::Plan* plan, plan::Space to, int64_t prefetch)
      : plan_(*plan), to_(to), prefetch_(static_cast<size_t>(prefetch)) {}

  void run() {
    number_instructions();
    const auto slots = static_cast<SlotId>(plan_.slots.size());
    for (SlotId slot = 0; slot < slots; ++slot)
      if (are_weights(plan_.slot(slot))) find_visits(slot);
    fetches_.resize(plan_.instructions.size()), offloads_.resize(plan_.instructions.size());
    std::stable_sort(visits_.begin(), visits_.end(),
                     [](const Visit& a, const Visit& b) { return a.uses.front() < b.uses.front(); });
    for (const Visit& visit : visits_) place(visit);
    const auto before = [&](size_t i, Instruction*) {
      for (const size_t v : fetches_[i]) move(Op::kFetch, plan::Lane::kFetchWeights, visits_[v]);
    };
    const auto after = [&](size_t i) {
      for (const size_t v : offloads_[i]) move(Op::kOffload, plan::Lane::kOffloadWeights, visits_[v]);
    };
    insert_around(&plan_, before, after);
  }

 private:
  /// A sequence of uses of weights in the arena.
  struct Visit {
    SlotId place, inside;
    std::vector<size_t> uses;  // instructions
    bool changes = false;      // some use writes the weights
  };

  /// Distances are counted in instructions that call modules or update a block.
  void number_instructions() {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      number_.push_back(by_number_.size());
      const Op op = plan_.instructions[i].op;
      if (plan::traits_of(op).modules || op == Op::kOptimizerStep) by_number_.push_back(i);
    }
  }

  /// Consecutive uses share a visit; in the second half of a step, which changes weights, all uses do.
  void find_visits(SlotId slot) {
    const size_t first = visits_.size();
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Use use = use_of(plan_.instructions[i], slot);
      if (!use.any) continue;
      if (visits_.size() == first || !continues(visits_.back(), i)) visits_.push_back({slot, -1, {}, false});
      visits_.back().uses.push_back(i);
      visits_.back().changes |= use.writes;
    }
    for (size_t v = first; v < visits_.size(); ++v) bring_inside(&visits_[v]);
    place_outside(&plan_.slots[static_cast<size_t>(slot)], to_);
  }
  bool continues(const Visit& visit, size_t i) const {
    const size_t last = visit.uses.back();
    if (last < plan_.commit && i >= plan_.commit) return false;
    return i >= plan_.commit || number_[i] <= number_[last] + 1;
  }

  struct Use {
    bool any = false, writes = false;
  };
  static Use use_of(const Instruction& n, SlotId slot) {
    Use found;
    if (n.on_host()) return found;  // it works on the weights in their place
    for (const plan::Use& use : n.uses)
      if (use.slot == slot) found.any = true, found.writes |= use.written;
    return found;
  }

  void bring_inside(Visit* visit) {
    plan::Slot inside = plan_.slot(visit->place);
    inside.name += fmt::format(" (here {})", visit->uses.front());
    inside.persistent = false, inside.align = kOffloadPage;
    visit->inside = plan_.add_slot(std::move(inside));
    for (const size_t i : visit->uses)
      for (plan::Use& use : plan_.instructions[i].uses)
        if (use.slot == visit->place) use.slot = visit->inside;
  }

  void place(const Visit& visit) {
    const auto v = static_cast<size_t>(&visit - visits_.data());
    const size_t first = visit.uses.front(), last = visit.uses.back();
    const size_t ahead = number_[first] - std::min(number_[first], prefetch_);
    size_t at = ahead < by_number_.size() ? std::min(first, by_number_[ahead]) : first;
    if (first >= plan_.commit) at = std::max({at, plan_.commit, after_host(visit)});
    fetches_[at].push_back(v);
    if (!visit.changes) return;
    offloads_[last].push_back(v);
    if (const size_t held = number_[last] + prefetch_; held < by_number_.size() && by_number_[held] > last)
      plan_.instructions[by_number_[held]].holds.push_back(visit.inside);
  }

  /// The first instruction before the visit from which on the host's processor no longer writes the weights.
  size_t after_host(const Visit& visit) const {
    for (size_t i = visit.uses.front(); i-- > plan_.commit;) {
      const Instruction& n = plan_.instructions[i];
      for (const plan::Use& use : n.uses)
        if (n.on_host() && use.slot == visit.place && use.written) return i + 1;
    }
    return plan_.commit;
  }

  void move(Op op, plan::Lane lane, const Visit& visit) {
    const bool in = op == Op::kFetch;
    plan_.instructions.push_back(move_instruction(op, lane, plan_.slot(visit.place).block,
                                                  in ? visit.place : visit.inside,
                                                  in ? visit.inside : visit.place));
  }

  plan::Plan& plan_;
  const plan::Space to_;
  const size_t prefetch_;
  std::vector<size_t> number_;     // indexed by instruction: those before it that are counted
  std::vector<size_t> by_number_;  // instructions that are counted
  std::vector<Visit> visits_;
  std::vector<std::vector<size_t>> fetches_,
      offloads_;  // visits, indexed by instruction: before and after it
};

}  // namespace

void offload_weights(plan::Plan* plan, plan::Space to, int64_t prefetch) {
  OffloadWeights(plan, to, prefetch).run();
}

}  // namespace hawser::parallel
