#include "engine/execute/slot_ledger.h"

#include <algorithm>
#include <cstring>

namespace hawser::train {
namespace {

/// Calls fn once for each slot that the instruction names.
template <typename Fn>
void for_each_slot(const plan::Instruction& n, Fn fn) {
  const auto used = [&](plan::SlotId id, bool or_written) {
    return std::any_of(n.uses.begin(), n.uses.end(),
                       [&](const plan::Use& use) { return use.slot == id && (or_written || !use.written); });
  };
  for (const plan::Use& use : n.uses)
    if (!use.written || !used(use.slot, false)) fn(use.slot);
  for (const plan::SlotId id : n.holds)
    if (!used(id, true)) fn(id);
  if (n.scratch >= 0) fn(n.scratch);
}

/// True if the slot is in the arena for only a part of the plan. The ledger tracks the lifetimes of these.
bool comes_and_goes(const plan::Slot& slot) { return !slot.persistent && slot.in_arena(); }

/// True if the slot's bytes stay from one run of the plan to the next.
bool holds_a_cache(const plan::Instruction& n, plan::SlotId id) {
  return std::any_of(n.uses.begin(), n.uses.end(), [&](const plan::Use& use) {
    return use.slot == id && use.operand == plan::Operand::kCache;
  });
}

bool overlap(const plan::Slot& a, const plan::Slot& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

SlotLedger::SlotLedger(device::Arena* arena, bool poisons, const plan::Plan& plan)
    : arena_(*arena), poisons_(poisons) {
  for (const plan::Slot& slot : plan.slots)
    if (slot.persistent && slot.in_arena()) open(plan, slot);
  if (poisons_) device::poison(arena_.data() + plan.persistent_bytes, arena_.bytes() - plan.persistent_bytes);
}

void SlotLedger::begin(const plan::Plan& plan, size_t first) {
  draining_.reserve(plan.slots.size());
  done_ = plan.over_before(first);
  acquired_ = released_ = static_cast<int32_t>(first) - 1;
}

void SlotLedger::acquire(const plan::Plan& plan, size_t index) {
  const auto now = static_cast<int32_t>(index);
  for_each_slot(plan.instructions[index], [&](plan::SlotId id) {
    const plan::Slot& slot = plan.slot(id);
    if (!comes_and_goes(slot) || slot.first != now) return;
    open(plan, slot);
    if (fills_ && !holds_a_cache(plan.instructions[index], id) && !in_flight(plan, slot))
      std::memset(arena_.data() + slot.offset, 0xFF, static_cast<size_t>(slot.bytes));
  });
  acquired_ = now;
}

void SlotLedger::release(const plan::Plan& plan, size_t index, const plan::LaneMarks& done) {
  const auto now = static_cast<int32_t>(index);
  for_each_slot(plan.instructions[index], [&](plan::SlotId id) {
    if (comes_and_goes(plan.slot(id)) && plan.slot(id).last == now) close(plan, id, done);
  });
  released_ = now;
}

void SlotLedger::drain(const plan::Plan& plan, const plan::LaneMarks& done) {
  done_ = done;
  std::erase_if(draining_, [&](plan::SlotId id) {
    const bool over = plan.slot(id).last_transfer.covered_by(done);
    if (over) poison(plan.slot(id));
    return over;
  });
}

void SlotLedger::release_all(const plan::Plan& plan, const plan::LaneMarks& done) {
  for (size_t id = 0; id < plan.slots.size(); ++id) {
    const plan::Slot& slot = plan.slots[id];
    if (comes_and_goes(slot) && slot.first <= acquired_ && slot.last > released_)
      close(plan, static_cast<plan::SlotId>(id), done);
  }
}

/// A transfer queued behind another may reuse the bytes that an earlier slot still drains. They are live
/// again.
void SlotLedger::open(const plan::Plan& plan, const plan::Slot& slot) {
  std::erase_if(draining_, [&](plan::SlotId id) { return overlap(plan.slot(id), slot); });
  if (poisons_) device::unpoison(arena_.data() + slot.offset, slot.bytes);
  live_[static_cast<size_t>(slot.category)] += slot.bytes;
  live_bytes_ += slot.bytes;
  high_water_ = std::max(high_water_, slot.offset + slot.bytes);
  if (live_bytes_ > most_live_) most_live_ = live_bytes_, live_at_peak_ = live_;
}

/// True if a transfer of an earlier slot may still use this slot's bytes.
bool SlotLedger::in_flight(const plan::Plan& plan, const plan::Slot& slot) const {
  return std::any_of(plan.slots.begin(), plan.slots.end(), [&](const plan::Slot& other) {
    return comes_and_goes(other) && other.last >= 0 && other.last < slot.first && overlap(other, slot) &&
           !other.last_transfer.covered_by(done_);
  });
}

void SlotLedger::close(const plan::Plan& plan, plan::SlotId id, const plan::LaneMarks& done) {
  const plan::Slot& slot = plan.slot(id);
  live_[static_cast<size_t>(slot.category)] -= slot.bytes;
  live_bytes_ -= slot.bytes;
  if (slot.last_transfer.covered_by(done))
    poison(slot);
  else
    draining_.push_back(id);
}

/// On devices other than the CPU, submitted work may still have to run.
void SlotLedger::poison(const plan::Slot& slot) {
  if (poisons_) device::poison(arena_.data() + slot.offset, slot.bytes);
}

}  // namespace hawser::train
