#include "engine/parallel/offload_activations.h"

#include <algorithm>
#include <vector>

#include "engine/parallel/offload_moves.h"

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Op;
using plan::SlotId;

bool is_forward(Op op) { return op == Op::kForward || op == Op::kRecvF || op == Op::kSendF; }
bool is_backward(Op op) { return op == Op::kRecompute || op == Op::kBackward || op == Op::kBackwardInput; }

class OffloadActivations {
 public:
  OffloadActivations(plan::Plan* plan, plan::Space to, int64_t prefetch)
      : plan_(*plan), to_(to), prefetch_(static_cast<size_t>(prefetch)) {}

  void run() {
    find_uses();
    leaves_.resize(plan_.instructions.size()), comes_.resize(plan_.instructions.size());
    for (size_t slot = 0, slots = plan_.slots.size(); slot < slots; ++slot)
      if (moves(static_cast<SlotId>(slot))) find_gap(static_cast<SlotId>(slot));
    const auto before = [&](size_t i, Instruction*) {
      for (const Journey& j : comes_[i]) add(Op::kFetch, plan::Lane::kFetch, j, j.outside, j.inside);
    };
    const auto after = [&](size_t i) {
      for (const Journey& j : leaves_[i]) add(Op::kOffload, plan::Lane::kOffload, j, j.inside, j.outside);
    };
    insert_around(&plan_, before, after);
  }

 private:
  struct Journey {
    SlotId inside, outside;
    int32_t block, micro_batch;
  };

  bool moves(SlotId slot) const {
    const plan::Slot& s = plan_.slot(slot);
    return !s.persistent && s.category == plan::Category::kActivations;
  }

  /// Finds the uses of slots. Distances are counted in instructions that call modules.
  void find_uses() {
    uses_.resize(plan_.slots.size());
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& n = plan_.instructions[i];
      number_.push_back(by_number_.size());
      if (plan::traits_of(n.op).modules) by_number_.push_back(i);
      for (const plan::Use& use : n.uses) {
        std::vector<size_t>& uses = uses_[static_cast<size_t>(use.slot)];
        if (uses.empty() || uses.back() != i) uses.push_back(i);
      }
    }
  }

  /// Finds the gap between a slot's last use in forward and its first use in backward, in which it is
  /// offloaded.
  void find_gap(SlotId slot) {
    const std::vector<size_t>& uses = uses_[static_cast<size_t>(slot)];
    for (size_t u = 0; u + 1 < uses.size(); ++u) {
      const size_t from = uses[u], to = uses[u + 1];
      if (!is_forward(plan_.instructions[from].op) || !is_backward(plan_.instructions[to].op)) continue;
      const size_t out = number_[from] + prefetch_, back = number_[to] - std::min(number_[to], prefetch_);
      if (back <= out + 1) return;
      plan_.instructions[by_number_[out]].holds.push_back(slot);
      move(slot, from, by_number_[back], uses, u + 1);
      return;
    }
  }

  void move(SlotId slot, size_t from, size_t fetch, const std::vector<size_t>& uses, size_t later) {
    plan::Slot& inside = plan_.slots[static_cast<size_t>(slot)];
    inside.align = kOffloadPage;
    plan::Slot outside, again = inside;
    outside.name = inside.name + " (away)";
    outside.category = inside.category;
    outside.bytes = inside.bytes;
    place_outside(&outside, to_);
    again.name = inside.name + " (back)";
    const Instruction& last = plan_.instructions[from];
    const Journey out{slot, plan_.add_slot(std::move(outside)), last.block, last.micro_batch};
    const Journey back{plan_.add_slot(std::move(again)), out.outside, out.block, out.micro_batch};
    for (size_t u = later; u < uses.size(); ++u)
      for (plan::Use& use : plan_.instructions[uses[u]].uses)
        if (use.slot == slot) use.slot = back.inside;
    leaves_[from].push_back(out);
    comes_[fetch].push_back(back);
  }

  void add(Op op, plan::Lane lane, const Journey& j, SlotId sent, SlotId received) {
    plan_.instructions.push_back(move_instruction(op, lane, j.block, sent, received));
    plan_.instructions.back().micro_batch = j.micro_batch;
  }

  plan::Plan& plan_;
  const plan::Space to_;
  const size_t prefetch_;
  std::vector<std::vector<size_t>> uses_;  // instructions, indexed by slot
  std::vector<size_t> number_;             // indexed by instruction: earlier instructions that call modules
  std::vector<size_t> by_number_;          // instructions that call modules
  std::vector<std::vector<Journey>> leaves_,
      comes_;  // indexed by instruction: after and before it
};

}  // namespace

void offload_activations(plan::Plan* plan, plan::Space to, int64_t prefetch) {
  OffloadActivations(plan, to, prefetch).run();
}

}  // namespace hawser::parallel
