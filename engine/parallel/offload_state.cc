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
    windows_.resize(updates_.size());
    for (size_t u = 0; u < updates_.size(); ++u) make_windows(u);
    for (plan::Slot& slot : plan_.slots)
      if (is_optimizer_state(slot)) place_outside(&slot, to_);
    const auto before = [&](size_t i, Instruction*) {
      if (const size_t u = number_of(i); u < updates_.size()) fetch_ahead(u);
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

  /// Before update u, fetches the state of the update that comes `prefetch` later; before the first, also
  /// that of those in between.
  void fetch_ahead(size_t u) {
    const size_t end = std::min(u + prefetch_ + 1, updates_.size());
    for (size_t ahead = u == 0 ? 0 : u + prefetch_; ahead < end; ++ahead)
      for (const Window& w : windows_[ahead])
        add(Op::kFetch, plan::Lane::kFetchState, ahead, w.place, w.inside);
  }

  void add(Op op, plan::Lane lane, size_t update, SlotId sent, SlotId received) {
    const int32_t block = plan_.slot(windows_[update].front().place).block;
    plan_.instructions.push_back(move_instruction(op, lane, block, sent, received));
  }

  plan::Plan& plan_;
  const plan::Space to_;
  const size_t prefetch_;
  std::vector<size_t> updates_;               // instructions that are OPTIMIZER_STEPs or MOMENTUMs
  std::vector<std::vector<Window>> windows_;  // by update
};

}  // namespace

void offload_optimizer_state(plan::Plan* plan, plan::Space to, int64_t prefetch) {
  OffloadOptimizerState(plan, to, prefetch).run();
}

}  // namespace hawser::parallel
