#include "engine/parallel/early_fetches.h"

#include <algorithm>
#include <vector>

namespace hawser::parallel {
namespace {

using plan::Instruction;
using plan::Op;
using plan::Operand;
using plan::Plan;

class EarlyFetches {
 public:
  explicit EarlyFetches(Plan* plan) : plan_(*plan), first_(plan->commit), end_(plan->commit) {}

  void run() {
    while (end_ < plan_.instructions.size() && fetches_state(plan_.instructions[end_])) ++end_;
    if (first_ == end_) return;
    const int64_t peak = peak_of(plan_);
    places_.assign(end_ - first_, first_);
    size_t behind = backward_begins();
    for (size_t f = 0; f < places_.size() && behind < first_; ++f) {
      find_place(f, std::max(behind, ready(plan_.instructions[first_ + f])), peak);
      behind = places_[f];
    }
    plan_ = with_fetches_moved();
  }

 private:
  bool fetches_state(const Instruction& n) const {
    return n.op == Op::kFetch && plan_.slot(n[Operand::kSent]).persistent &&
           !plan_.slot(n[Operand::kReceived]).persistent;
  }

  static int64_t peak_of(Plan plan) {
    plan::hold_pairs(&plan);
    plan::assign_memory(&plan);
    return plan.peak_bytes;
  }

  /// Finds a place of FETCH f from `least` on at which the plan's peak is not above `peak`. Places all memory
  /// for each try, because slots that fit in sum need not fit side by side.
  void find_place(size_t f, size_t least, int64_t peak) {
    for (size_t fits = first_; least < fits;) {
      const size_t middle = least + (fits - least) / 2;
      places_[f] = between_pairs(middle);
      if (peak_of(with_fetches_moved()) <= peak)
        fits = middle;
      else
        least = middle + 1;
      places_[f] = between_pairs(fits);
    }
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
