#include "engine/parallel/offload_state.h"

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

class OffloadOptimizerState {
 public:
  OffloadOptimizerState(plan::Plan* plan, plan::Space to, int64_t prefetch)
      : plan_(*plan), to_(to), prefetch_(static_cast<size_t>(prefetch)) {}

  void run() {
    for (size_t i = 0; i < plan_.instructions.size(); ++i)
      if (const Op op = plan_.instructions[i].op; op == Op::kOptimizerStep || op == Op::kMomentum)
        updates_.push_back(i);
    windows_.resize(updates_.size()), fetched_before_.resize(updates_.size());
    for (size_t u = 0; u < updates_.size(); ++u) make_windows(u);
    for (size_t u = 0; u < updates_.size(); ++u) fetched_before_[fetch_place(u)].push_back(u);
    for (plan::Slot& slot : plan_.slots)
      if (is_optimizer_state(slot)) place_outside(&slot, to_);
    const auto before = [&](size_t i, Instruction*) {
      if (const size_t u = number_of(i); u < updates_.size())
        for (const size_t ahead : fetched_before_[u])
          for (const Window& w : windows_[ahead])
            add(Op::kFetch, plan::Lane::kFetchState, ahead, w.place, w.inside);
    };
    const auto after = [&](size_t i) {
      if (const size_t u = number_of(i); u < updates_.size())
        for (const Window& w : windows_[u])
          add(Op::kOffload, plan::Lane::kOffloadState, u, w.inside, w.place);
    };
    insert_around(&plan_, before, after);
  }

 private:
  /// Arena memory for state during its update, and the place of the state between steps.
  struct Window {
    SlotId inside, place;
  };

  /// Returns the number of the update that instruction i is; any other instruction has none.
  size_t number_of(size_t i) const {
    const auto at = std::lower_bound(updates_.begin(), updates_.end(), i);
    return at != updates_.end() && *at == i ? static_cast<size_t>(at - updates_.begin()) : updates_.size();
  }

  void make_windows(size_t u) {
    for (plan::Use& use : plan_.instructions[updates_[u]].uses) {
      if (!is_optimizer_state(plan_.slot(use.slot))) continue;
      plan::Slot inside = plan_.slot(use.slot);
      inside.name += " (here)";
      inside.persistent = false, inside.align = kOffloadPage;
      const SlotId window = plan_.add_slot(std::move(inside));
      windows_[u].push_back({window, use.slot});
      use.slot = window;
    }
    if (u + prefetch_ >= updates_.size()) return;
    for (const Window& w : windows_[u]) plan_.instructions[updates_[u + prefetch_]].holds.push_back(w.inside);
  }

  /// Returns the update before which the state of update u is fetched: `prefetch` updates ahead, but not
  /// before an earlier update has written the same state back.
  size_t fetch_place(size_t u) const {
    size_t place = u - std::min(u, prefetch_);
    for (size_t earlier = place; earlier < u; ++earlier)
      if (share_state(earlier, u)) place = earlier + 1;
    return place;
  }
  bool share_state(size_t a, size_t b) const {
    return std::ranges::any_of(windows_[a], [&](const Window& of_a) {
      return std::ranges::any_of(windows_[b], [&](const Window& w) { return w.place == of_a.place; });
    });
  }

  void add(Op op, plan::Lane lane, size_t update, SlotId sent, SlotId received) {
    const int32_t block = plan_.slot(windows_[update].front().place).block;
    plan_.instructions.push_back(move_instruction(op, lane, block, sent, received));
  }

  plan::Plan& plan_;
  const plan::Space to_;
  const size_t prefetch_;
  std::vector<size_t> updates_;                      // instructions that are OPTIMIZER_STEPs or MOMENTUMs
  std::vector<std::vector<Window>> windows_;         // by update
  std::vector<std::vector<size_t>> fetched_before_;  // by update: those whose state is fetched before it
};

}  // namespace

void offload_optimizer_state(plan::Plan* plan, plan::Space to, int64_t prefetch) {
  OffloadOptimizerState(plan, to, prefetch).run();
}

}  // namespace hawser::parallel
