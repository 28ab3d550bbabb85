// Memory plan: assigns offsets to slots by interval colouring over bytes, so a plan's peak is exact before
// anything is allocated.
#include <algorithm>
#include <numeric>

#include "engine/plan/early_plan.h"
#include "engine/plan/occupancy.h"
#include "engine/plan/plan.h"
#include "engine/plan/segments.h"

namespace hawser::plan {
namespace {

int64_t align_up(int64_t bytes, int64_t to = Plan::kAlign) { return (bytes + to - 1) / to * to; }

void assign_lifetimes(Plan* plan) {
  const auto touch = [plan](SlotId id, int32_t at) {
    Slot& slot = plan->slots[static_cast<size_t>(id)];
    if (slot.first < 0) slot.first = at;
    slot.last = at;
  };
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    const Instruction& instruction = plan->instructions[i];
    for (const Use& use : instruction.uses) touch(use.slot, static_cast<int32_t>(i));
    for (SlotId id : instruction.holds) touch(id, static_cast<int32_t>(i));
    if (instruction.scratch >= 0) touch(instruction.scratch, static_cast<int32_t>(i));
  }
}

/// Returns the lowest free offset that is a multiple of the slot's alignment.
int64_t lowest_free(Occupancy& taken, const Slot& slot, int64_t from) {
  for (int64_t at = align_up(from, slot.align);;) {
    const int64_t free = taken.lowest_free(slot.first, slot.last, slot.bytes, at);
    if (free % slot.align == 0) return free;
    at = align_up(free, slot.align);
  }
}

/// Places the persistent slots of a space in order, and returns the end of the last slot.
int64_t place_persistent(Plan* plan, Space space) {
  int64_t at = 0;
  for (Slot& slot : plan->slots) {
    if (!slot.persistent || slot.space != space) continue;
    slot.offset = align_up(at, slot.align);
    at = align_up(slot.offset + slot.bytes);
  }
  return at;
}

/// Returns the transient slots of a space in the order in which they are placed: the largest first.
std::vector<size_t> placement_order(const Plan& plan, Space space) {
  std::vector<size_t> order;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (!slot.persistent && slot.first >= 0 && slot.space == space) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&plan](size_t a, size_t b) { return plan.slots[a].bytes > plan.slots[b].bytes; });
  return order;
}

/// Keeps the slots that instructions [0, end) use, and the slots on which their offsets depend. An offset
/// depends on slots placed earlier whose lifetimes overlap, so a slot is dropped if its lifetime begins after
/// the lifetimes of all kept slots placed after it have ended. Micro-batches (staging) are live for most of
/// the step, so their offsets depend on almost all slots. The largest staging slot and all slots placed after
/// it are therefore dropped.
void keep_early(const Plan& plan, int32_t end, std::vector<size_t>* order) {
  const auto staged = [&](size_t id) { return plan.slots[id].category == Category::kStaging; };
  order->erase(std::find_if(order->begin(), order->end(), staged), order->end());
  std::vector<size_t> early;
  for (size_t k = order->size(); k-- > 0;) {
    const Slot& slot = plan.slots[(*order)[k]];
    if (slot.first >= end) continue;
    end = std::max(end, slot.last + 1);
    early.push_back((*order)[k]);
  }
  order->assign(early.rbegin(), early.rend());
}

/// Places these slots from byte `from` on, and returns the end of the highest slot. Slots that have an offset
/// keep it.
int64_t place_transients(Plan* plan, const std::vector<size_t>& order, int64_t from) {
  Occupancy taken(plan->instructions.size());
  int64_t peak = from;
  for (size_t i : order) {
    Slot& slot = plan->slots[i];
    if (slot.offset < 0) slot.offset = lowest_free(taken, slot, from);
    taken.take(slot.first, slot.last, slot.offset, align_up(slot.offset + slot.bytes));
    peak = std::max(peak, slot.offset + slot.bytes);
  }
  return peak;
}

/// Sweeps once over the instructions, adding slots that begin and removing those that end.
void count_peak(Plan* plan) {
  const size_t steps = std::max<size_t>(plan->instructions.size(), 1);
  std::vector<MemoryByCategory> change(steps + 1);
  for (const Slot& slot : plan->slots) {
    if ((!slot.persistent && slot.first < 0) || !slot.in_arena()) continue;
    const auto category = static_cast<size_t>(slot.category);
    change[slot.persistent ? 0 : static_cast<size_t>(slot.first)][category] += slot.bytes;
    change[slot.persistent ? steps : static_cast<size_t>(slot.last) + 1][category] -= slot.bytes;
  }
  MemoryByCategory live{};
  int64_t most = -1;
  for (size_t i = 0; i < steps; ++i) {
    for (size_t c = 0; c < live.size(); ++c) live[c] += change[i][c];
    const int64_t total = std::accumulate(live.begin(), live.end(), int64_t{0});
    if (total > most) most = total, plan->at_peak = live;
  }
}

}  // namespace

void assign_memory(Plan* plan) {
  assign_lifetimes(plan);
  plan->persistent_bytes = place_persistent(plan, Space::kArena);
  plan->peak_bytes = place_transients(plan, placement_order(*plan, Space::kArena), plan->persistent_bytes);
  for (const Space space : {Space::kHost, Space::kDisk})
    plan->outside[static_cast<size_t>(space)] =
        place_transients(plan, placement_order(*plan, space), place_persistent(plan, space));
  count_peak(plan);
}

void assign_early_memory(Plan* plan, size_t end) {
  assign_lifetimes(plan);
  for (const Space space : {Space::kArena, Space::kHost, Space::kDisk}) {
    std::vector<size_t> order = placement_order(*plan, space);
    keep_early(*plan, static_cast<int32_t>(end), &order);
    place_transients(plan, order, place_persistent(plan, space));
  }
}

SlotId Plan::add_slot(Slot slot) {
  // A shard of 0 bytes may be another engine's, so it keeps its slot.
  if (slot.bytes == 0 && slot.role != Role::kWeightShards) return -1;
  const auto id = static_cast<SlotId>(slots.size());
  if (slot.persistent) states.add(slot.role, slot.block, id);
  slots.push_back(std::move(slot));
  return id;
}

void StateIndex::add(Role role, int32_t block, SlotId id) {
  std::vector<SlotId>& of_role = ids_[static_cast<size_t>(role)];
  const auto at = static_cast<size_t>(block + 1);
  if (at >= of_role.size()) of_role.resize(at + 1, -1);
  if (of_role[at] < 0) of_role[at] = id;
}

SlotId StateIndex::find(Role role, int32_t block) const {
  const std::vector<SlotId>& of_role = ids_[static_cast<size_t>(role)];
  const auto at = static_cast<size_t>(block + 1);
  return at < of_role.size() ? of_role[at] : -1;
}

Instruction& Plan::add(Instruction instruction, int64_t scratch_bytes) {
  if (scratch_bytes > 0) instruction.scratch = add_slot({"workspace", Category::kWorkspace, scratch_bytes});
  instructions.push_back(std::move(instruction));
  return instructions.back();
}

void hold_pairs(Plan* plan) {
  const auto hold = [](const Instruction& of, Instruction* by) {
    std::vector<SlotId>& holds = by->holds;
    for (const Use& use : of.uses)
      if (std::find(holds.begin(), holds.end(), use.slot) == holds.end()) holds.push_back(use.slot);
    if (of.scratch >= 0 && std::find(holds.begin(), holds.end(), of.scratch) == holds.end())
      holds.push_back(of.scratch);
  };
  for (size_t i = 0; i + 1 < plan->instructions.size(); ++i) {
    Instruction &one = plan->instructions[i], &other = plan->instructions[i + 1];
    if (!one.overlaps_next) continue;
    hold(other, &one);
    hold(one, &other);
  }
}

void finish(Plan* plan) {
  check_operands(*plan);
  check_contents(*plan);
  hold_pairs(plan);
  assign_memory(plan);
  assign_waits(plan);
  assign_border(plan);
  assign_segments(plan);
}

void begin(Plan* plan, size_t end) {
  hold_pairs(plan);
  assign_early_memory(plan, end);
  assign_early_waits(plan, end);
}

SlotId find_slot(const Plan& plan, std::string_view name) {
  for (size_t i = 0; i < plan.slots.size(); ++i)
    if (plan.slots[i].name == name) return static_cast<SlotId>(i);
  return -1;
}

int64_t moved_bytes(const Plan& plan, const Instruction& n) {
  if (n.moved_parts > 0) return n.moved_bytes;
  return plan.slot(n[n.op == Op::kOffload ? Operand::kSent : Operand::kReceived]).bytes;
}

int64_t persistent_bytes(const Plan& plan, Space space, Category category) {
  int64_t bytes = 0;
  for (const Slot& slot : plan.slots)
    if (slot.persistent && slot.space == space && slot.category == category) bytes += slot.bytes;
  return bytes;
}

SlotId find_state(const Plan& plan, Role role, int32_t block) { return plan.states.find(role, block); }

}  // namespace hawser::plan
