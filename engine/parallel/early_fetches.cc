#include "engine/parallel/early_fetches.h"

#include <algorithm>
#include <vector>

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Plan;
using plan::Slot;

class EarlyFetches {
 public:
  explicit EarlyFetches(Plan* plan) : plan_(*plan), first_(plan->commit), end_(plan->commit) {}

  void run() {
    while (end_ < plan_.instructions.size() && fetches_state(plan_.instructions[end_])) ++end_;
    if (first_ == end_) return;
    const Plan placed = with_memory(plan_);
    find_places(placed);
    // Slots that fit in sum need not fit side by side. Then all FETCHes come later.
    while (places_.front() < first_) {
      Plan moved = with_fetches_moved();
      if (with_memory(moved).peak_bytes <= placed.peak_bytes) {
        plan_ = std::move(moved);
        return;
      }
      for (size_t& place : places_) place = between_pairs(place + (first_ - place + 1) / 2);
    }
  }

 private:
  bool fetches_state(const Instruction& n) const {
    return n.op == Op::kFetch && plan_.slot(n[Operand::kSent]).persistent &&
           !plan_.slot(n[Operand::kReceived]).persistent;
  }

  static Plan with_memory(Plan plan) {
    plan::hold_pairs(&plan);
    plan::assign_memory(&plan);
    return plan;
  }

  void find_places(const Plan& placed) {
    std::vector<int64_t> free = free_bytes(placed);
    size_t behind = backward_begins();
    for (size_t f = first_; f < end_; ++f) {
      const Instruction& fetch = plan_.instructions[f];
      const int64_t bytes = placed.slot(fetch[Operand::kReceived]).bytes;
      size_t place = first_;
      for (const size_t least = std::max(behind, ready(fetch)); place > least && free[place - 1] >= bytes;)
        --place;
      place = between_pairs(place);
      for (size_t i = place; i < first_; ++i) free[i] -= bytes;
      places_.push_back(place);
      behind = place;
    }
  }

  /// Returns for each instruction of the gradient phase the bytes below the plan's peak that no slot has.
  std::vector<int64_t> free_bytes(const Plan& placed) const {
    std::vector<int64_t> change(first_ + 1);
    for (const Slot& slot : placed.slots) {
      if (slot.persistent || !slot.in_arena() || slot.first < 0) continue;
      const auto from = static_cast<size_t>(slot.first), to = static_cast<size_t>(slot.last) + 1;
      if (from < first_) change[from] += slot.bytes;
      if (to < first_) change[to] -= slot.bytes;
    }
    std::vector<int64_t> free(first_);
    int64_t live = placed.persistent_bytes;
    for (size_t i = 0; i < first_; ++i) free[i] = placed.peak_bytes - (live += change[i]);
    return free;
  }

  /// Returns the first instruction of the backward of the last micro-batch.
  size_t backward_begins() const {
    int32_t last = -1;
    for (const Instruction& n : plan_.instructions) last = std::max(last, n.micro_batch);
    for (size_t i = 0; i < first_; ++i) {
      const Instruction& n = plan_.instructions[i];
      const bool backward = n.op == Op::kLoss || n.op == Op::kBackward || n.op == Op::kBackwardInput;
      if (backward && n.micro_batch == last) return i;
    }
    return first_;
  }

  /// Returns the first instruction before which the fetch may come: nothing from there on writes what it
  /// reads, and no transfer of its lane waits behind it.
  size_t ready(const Instruction& fetch) const {
    size_t i = first_;
    const auto writes = [&](const plan::Use& use) {
      return use.written && use.slot == fetch[Operand::kSent];
    };
    while (i > 0 && plan_.instructions[i - 1].lane != fetch.lane &&
           std::ranges::none_of(plan_.instructions[i - 1].uses, writes))
      --i;
    return i;
  }

  /// Returns `at`, or the next instruction if a pair that overlaps would be separated.
  size_t between_pairs(size_t at) const {
    return at > 0 && at < first_ && plan_.instructions[at - 1].overlaps_next ? at + 1 : at;
  }

  Plan with_fetches_moved() const {
    Plan moved = plan_;
    moved.instructions.clear();
    size_t f = 0;
    for (size_t i = 0; i < first_; ++i) {
      for (; f < places_.size() && places_[f] == i; ++f)
        moved.instructions.push_back(plan_.instructions[first_ + f]);
      moved.instructions.push_back(plan_.instructions[i]);
    }
    moved.commit = moved.instructions.size();
    for (size_t i = first_ + f; i < plan_.instructions.size(); ++i)
      moved.instructions.push_back(plan_.instructions[i]);
    return moved;
  }

  Plan& plan_;
  const size_t first_;  // the FETCHes with which the update phase begins
  size_t end_;
  std::vector<size_t> places_;  // of each, the instruction before which it comes
};

}  // namespace

void fetch_early(Plan* plan) { EarlyFetches(plan).run(); }

}  // namespace hawser::parallel
